"""The page of runs on GPUs: the records stored as paper `gpu`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from repro.answers.figures.specs import Specs
from repro.answers.pages import provenance
from repro.answers.pages.files import Files
from repro.answers.pages.render import template, write_page
from repro.answers.tables.escaping import escaped
from repro.answers.tables.loading import Summary, read, trains
from repro.records import tidy
from repro.records.variants import newest, of_one_machine

PAGE = "gpu"
DRAWN = "strategies"  # the experiment of the figure; the others are in a table
ORDER = ("experiment", "variant", "testbed", "scale", "seed", "breakdown")  # of the rows
GROUPED = ("experiment", "scale")
MADE_WITH = ("hardware", "results", "runs", "seed", "data set", "commit", "finished")


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    runs = sorted(newest(read(PAGE, results), of_one_machine), key=lambda run: [str(run[name]) for name in ORDER])
    trained, probes = ([run for run in runs if trains(run) is kind] for kind in (True, False))
    made = {
        "trained": training([run for run in trained if run["experiment"] != DRAWN]),
        "drawn": training([run for run in trained if run["experiment"] == DRAWN]),
        "probes": pd.DataFrame([probe(run) for run in probes]),
        "provenance": provenance.table(provenance.by(GROUPED, runs), MADE_WITH),
    }
    specs = Specs(PAGE, files, lambda shown: made[shown.table])
    line = sentence(runs)
    shown = {"figure": specs.figure, "table": specs.table, "line": line, "any": bool(runs), "missed": missed(probes)}
    return write_page(template(f"{PAGE}/page.md.j2", **shown), PAGE, files), line


def sentence(runs: list[Summary]) -> str:
    """How many strategies, networks and runs there are, and on which GPUs."""
    if not runs:
        return "No results yet: `make gpu-queue` makes them."
    trained = [run for run in runs if trains(run)]
    strategies, networks = {run["strategy"] for run in trained}, {run["model"]["name"] for run in trained}
    return (
        f"{len(strategies)} strategies and {len(networks)} networks trained on {gpus(trained) or 'no GPU'}: "
        f"{len(runs)} runs of {len({run['experiment'] for run in runs})} experiments, on {gpus(runs) or 'no GPU'}."
    )


def gpus(runs: list[Summary]) -> str:
    return " and ".join(sorted({escaped(gpu) for run in runs if (gpu := run["hardware"].get("gpu"))}))


def missed(probes: list[Summary]) -> list[str]:
    """The goals that measurements missed, a sentence each, from the runs' own lines."""
    wrong = [run for run in probes if False in (run["result"].get("met"), run["result"].get("agree"))]
    texts = ({name: escaped(run[name]) for name in ("experiment", "variant", "line")} for run in wrong)
    return ["`{experiment}`, {variant}: {line}".format(**text) for text in texts]


def training(runs: list[Summary]) -> pd.DataFrame:
    """A row a training run, in milliseconds and megabytes."""
    table = tidy.frame([tidy.run(run) | _named(run) for run in runs])
    if runs:
        table["step_ms"] = 1e3 * table["step_s"]
        table = table if "peak_mb" in table else table.assign(peak_mb=float("nan"))
    return table


def probe(run: Summary) -> dict[str, str]:
    """A row for a probe's run, with its line of text."""
    return {name: str(run[name]) for name in ("experiment", "variant", "seed")} | {"found": str(run.get("line", ""))}


def _named(run: Summary) -> dict[str, str]:
    """The name of the method without its launcher, and the transport of its messages."""
    method = run["factors"].get("method", run["variant"])
    return {"method": method, "messages": run["hardware"].get("backend") or run["fabric"]}
