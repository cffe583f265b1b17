"""The page of runs on GPUs: the records stored as paper `gpu`."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from repro.answers.claims.stats import DASH
from repro.answers.figures.specs import Specs
from repro.answers.pages import provenance
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.render import template, write_page
from repro.records import catalogue
from repro.records.record import Found
from repro.records.run_columns import run_row
from repro.records.tables import list_entries, make_frame
from repro.records.variants import newest, of_one_machine

PAGE = "gpu"
DRAWN = "strategies"  # the experiment of the figure; the others are in a table
SELECTION, OVERLAP = "selection", "overlap"  # experiments with tables of their own
GOAL = {True: "met", False: "missed", None: DASH}
GROUPED = ("experiment", "scale")
MADE_WITH = ("hardware", "results", "runs", "seed", "data set", "commit", "finished")


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    runs = sorted(newest(catalogue.runs(PAGE, results), of_one_machine), key=order_of)
    trained, probes = ([run for run in runs if run.identity.trains is kind] for kind in (True, False))
    of = {name: [run for run in probes if run.identity.experiment == name] for name in (SELECTION, OVERLAP)}
    rest = [run for run in probes if run.identity.experiment not in of]
    made = {
        "trained": tabulate_training([run for run in trained if run.identity.experiment != DRAWN]),
        "drawn": tabulate_training([run for run in trained if run.identity.experiment == DRAWN]),
        "probes": join_equal(pd.DataFrame([probe_row(run) for run in rest])),
        "selection": tabulate_selection(of[SELECTION]),
        "overlap": tabulate_overlap(of[OVERLAP]),
        "provenance": provenance.table(provenance.group_by(GROUPED, runs), MADE_WITH),
    }
    specs = Specs(PAGE, files, lambda shown: made[shown.table])
    line = describe_runs(runs)
    shown = {
        "figure": specs.figure,
        "table": specs.table,
        "line": line,
        "goal": describe_overlap_goal(of[OVERLAP]),
        "any": bool(runs),
    }
    return write_page(template(f"{PAGE}/page.md.j2", **shown), PAGE, files), line


def join_equal(probes: pd.DataFrame) -> pd.DataFrame:
    """A row for each result of an experiment, with all variants that have it."""
    if probes.empty:
        return probes
    groups = probes.groupby(["experiment", "found"], sort=False, as_index=False)
    return groups.agg(
        {"variant": "; ".join} | {name: "first" for name in probes if name not in ("experiment", "found", "variant")}
    )


def order_of(run: Found) -> list[str]:
    """The place of a run among the rows."""
    identity = run.identity
    place = (identity.experiment, run.label, identity.testbed.name, identity.scale, identity.seed, identity.breakdown)
    return [str(part) for part in place]


def describe_runs(runs: list[Found]) -> Markdown:
    """How many strategies, networks and runs there are, and on which GPUs."""
    if not runs:
        return Markdown("No results yet: `make gpu-queue` makes them.")
    trained = [run for run in runs if run.identity.trains]
    strategies, networks = {run.identity.strategy.name for run in trained}, {run.model_name for run in trained}
    experiments = {run.identity.experiment for run in runs}
    most = max((run.training.iterations for run in trained), default=0)
    return Markdown.escape(
        f"{len(runs)} runs of {len(experiments)} experiments on {name_gpus(runs) or 'no GPU'}: {len(strategies)} "
        f"strategies and {len(networks)} networks trained on {name_gpus(trained) or 'none'}, for at most {most:,} "
        "iterations."
    )


def name_gpus(runs: list[Found]) -> str:
    return " and ".join(sorted({gpu for run in runs if (gpu := run.record.hardware.more.get("gpu"))}))


def tabulate_training(runs: list[Found]) -> pd.DataFrame:
    """A row a training run, in milliseconds and megabytes."""
    table = make_frame([run_row(run) | _named(run) for run in runs])
    if runs:
        table["step_ms"] = 1e3 * table["step_s"]
    return table


def probe_row(run: Found) -> dict[str, str]:
    """A row for a probe's run, with its line of text, and whether it met its goal."""
    identity, found = run.identity, run.probe.found
    about = {"experiment": identity.experiment, "variant": run.label, "seed": str(identity.seed), "kind": run.kind}
    return about | {"found": run.probe.line, "goal": GOAL[found.get("met", found.get("agree"))]}


def tabulate_selection(runs: list[Found]) -> pd.DataFrame:
    """A row for each network, device and way to select the largest gradients, in milliseconds."""
    entries = [
        {"model": run.label, "kind": run.kind} | entry for run in runs for entry in list_entries("rows", run.record)
    ]
    table = make_frame(entries)
    return table.assign(ms=1e3 * table["seconds.median"]) if entries else table


def tabulate_overlap(runs: list[Found]) -> pd.DataFrame:
    """A row for each variant: the share of communication that computation hides, in %, by our clock and by PyTorch's
    profiler, means over ranks."""
    rows = [
        {"variant": run.label, "kind": run.kind}
        | {view: 100 * fmean(rank[view]["share"] for rank in run.probe.found["rows"]) for view in ("clock", "profiler")}
        for run in runs
        if run.probe.found["rows"]
    ]
    return pd.DataFrame(rows)


def describe_overlap_goal(runs: list[Found]) -> str:
    """How far clock and profiler may be apart, and in how many runs they are no farther; "" without runs."""
    goals = {100 * run.probe.found["within"] for run in runs}
    met = sum(bool(run.probe.found["agree"]) for run in runs)
    points = " or ".join(f"{goal:g}" for goal in sorted(goals))
    return f"The goal, at most {points} points between both, is met in {met} of {len(runs)} runs." if runs else ""


def _named(run: Found) -> dict[str, Any]:
    """The name of the method without its launcher, and the transport of its messages."""
    method = run.identity.factors.get("method", run.label)
    return {"method": method, "messages": run.record.hardware.more.get("backend") or run.record.fabric}
