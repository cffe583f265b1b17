"""The validation page: measured step times on shaped links beside those of the virtual twins, and where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.reports.page import Files, Part, Section, not_run

from repro.reporting.stats import DASH, number
from repro.reports import figure_validation, frames_validation
from repro.reports.frames_validation import MEDIAN_GOAL, P95_GOAL, PAPER
from repro.reports.groups import finished
from repro.reports.loading import Summary, origin
from repro.reports.render import template, write_page

if TYPE_CHECKING:
    import pandas as pd

TITLE = "Validation of the simulation"
# experiment -> (heading, whether it counts for the goal, what it is)
EXPERIMENTS = {
    "shaped": ("Our strategies over MPI", True, "Ranks of mpirun, one a network namespace; computation sleeps."),
    "shaped-libraries": (
        "Libraries: PyTorch's DDP, and our strategies over gloo",
        True,
        "Ranks of torch.distributed (gloo); twins of what calls the library's own allreduce run on a network that was "
        "fitted to that allreduce.",
    ),
    "shaped-horovod": (
        "Libraries: Horovod over MPI",
        True,
        "Horovod's own allreduce is MPI's; its twin runs on a network that was fitted to MPI's allreduce.",
    ),
    "shaped-sparse": (
        "Sparse gradients over MPI",
        True,
        "Top-k and gTop-k S-SGD, in a thread of their own and without; selecting and merging are timed beforehand.",
    ),
    "eager": (
        "Eager-SGD over MPI",
        True,
        "Partial allreduces, nobody late: their threads look for messages all the time.",
    ),
    "pipeline": (
        "Pipelines over MPI",
        True,
        "Stages on 2 to 4 ranks, and data parallelism through a sharded server in many small messages.",
    ),
    "server": (
        "Sharded parameter servers over MPI",
        True,
        "Every rank is worker and server: a pull is a request and an answer of each other rank.",
    ),
    "contention": (
        "What the simulation cannot see: ranks that share cores",
        False,
        "The same, but computation multiplies matrices: ranks and their communication compete for this machine's "
        "cores. The virtual network gives every rank a computer of its own: that premise is what these errors measure.",
    ),
}


def build(results: Path | None, out: Path) -> tuple[list[Path], list[Path], str]:
    """(pages, other files, a line for the overview): the page under `out`."""
    found, files = frames_validation.load(results), Files(PAPER, out)
    sections = [section(name, [s for s in found if s["experiment"] == name], files) for name in EXPERIMENTS]
    counted = [s for s in found if EXPERIMENTS.get(s["experiment"], ("", False))[1]]
    glance, line = at_a_glance(counted, files)
    text = template(
        "validation.md.j2",
        title=TITLE,
        glance=glance,
        sections=[each.markdown() for each in sections],
        contents=[(each.title, each.anchor) for each in sections],
        median=f"{MEDIAN_GOAL:.0%}",
        p95=f"{P95_GOAL:.0%}",
        provenance=files.table(provenance(found), "provenance", ["experiment", "hardware"]) if found else "",
    )
    return write_page(text, PAPER, out, files.written), files.written, line


def at_a_glance(found: Sequence[Summary], files: Files) -> tuple[str, str]:
    """The goal beside what was reached, and a line for the overview."""
    if not found:
        return not_run(f"{PAPER}/shaped"), "No results yet: `repro run validation` makes them."
    steps = frames_validation.steps(found)
    every = frames_validation.errors(steps, [])
    (row,) = every.to_dict("records")
    met = "reached" if row["goal met"] == "yes" else "**missed**"
    line = (
        f"{len(steps)} step times of {steps['setting'].nunique()} variants, {steps['workers'].min()} to "
        f"{steps['workers'].max()} workers: simulated times are off by {row['median error']:.1%} in the median and "
        f"{row['95th percentile']:.1%} in the 95th percentile of cases; the goal ({MEDIAN_GOAL:.0%}, {P95_GOAL:.0%}) "
        f"is {met}."
    )
    apart = frames_validation.errors(steps, ["experiment"])
    apart["experiment"] = [EXPERIMENTS[name][0] for name in apart["experiment"]]
    tables = [
        ("By experiment", files.table(_shown(apart), "experiments", ["experiment"])),
        ("By strategy", files.table(_shown(frames_validation.errors(steps, ["strategy"])), "strategies", ["strategy"])),
    ]
    return "\n\n".join([line, *(f"{title}:\n\n{table}" for title, table in tables)]), line


def section(name: str, found: Sequence[Summary], files: Files) -> Section:
    """One experiment: its scatter, errors by variant, by testbed and by size, the worst, the fitted networks."""
    heading, _, what = EXPERIMENTS[name]
    made = Section(heading, "", what)
    if not found:
        made.text = f"{what} {not_run(f'{PAPER}/{name}')}"
        return made
    steps = frames_validation.steps(found)
    where = sorted({f"{s['testbed']}, {s['hardware']['class']}" for s in found})
    seeds = sorted({s["seed"] for s in found})
    title = f"{heading} {DASH} MEASURED on {' and '.join(where)}; SIMULATED by the virtual twins"
    caption = (
        f"**measured** (x) on {'; '.join(where)}, {len(seeds)} seed{'s' * (len(seeds) != 1)}, medians of the turns; "
        "**simulated** (y) from measurements made beforehand. Right: error by the gradient's bytes."
    )
    picture = files.picture(figure_validation.scatter(steps, title), name, title, caption, {"steps": steps})
    part = Part(picture=picture)
    for by, label in ((["setting"], "setting"), (["testbed", "workers"], "testbed and workers"), (["bytes"], "size")):
        table = files.table(_shown(frames_validation.errors(steps, by)), f"{name}-by-{by[0]}", by)
        part.tables.append((f"Error by {label}:", table))
    made.parts.append(part)
    missed = frames_validation.worst(steps, 15)
    if len(missed):
        table = files.table(_worst(missed), f"{name}-worst", ["testbed", "setting", "twin"])
        count = int((steps["error"].abs() > P95_GOAL).sum())
        text = f"Step times that are off by more than {P95_GOAL:.0%}: {count} of {len(steps)}; the worst:"
        made.parts.append(Part("Where it fails", tables=[(text, table)]))
    fits = files.table(_networks(found), f"{name}-networks", ["testbed", "fabric", "fitted to"])
    inner = Part(tables=[("Fitted beforehand, and what the links were measured to carry:", fits)])
    made.parts.append(Part(folded=[("The fitted networks", inner)]))
    return made


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    shown = table.copy()
    for name in ("median error", "95th percentile"):
        shown[name] = table[name].map(lambda value: f"{value:.1%}")
    shown["measured spread"] = table["measured spread"].map(lambda value: f"{value:.1%}" if value else "one turn")
    for name in ("worst", "mean (signed)"):
        shown[name] = table[name].map(lambda value: f"{value:+.1%}")
    if "bytes" in shown:
        shown["bytes"] = table["bytes"].map(lambda n: f"{n:,}")
    return shown.astype(str)


def _worst(found: pd.DataFrame) -> pd.DataFrame:
    shown = found[["testbed", "workers", "setting", "twin", "bytes"]].astype(str)
    for name in ("measured", "simulated", "computation"):
        shown[f"{name} (ms)"] = (1e3 * found[f"{name}_s"]).map(number)
    return shown.assign(error=found["error"].map(lambda value: f"{value:+.1%}"))


def _networks(found: Sequence[Summary]) -> pd.DataFrame:
    table = frames_validation.networks(found)
    for name in table.columns:
        if name == "worst point":
            table[name] = table[name].map(lambda value: f"{value:.1%}")
        elif table[name].dtype.kind == "f":
            table[name] = table[name].map(number)
    return table.astype(str)


def provenance(found: Sequence[Summary]) -> pd.DataFrame:
    """A row an experiment and testbed."""
    import pandas as pd

    rows: dict[tuple, list[Summary]] = {}
    for one in found:
        rows.setdefault((one["experiment"], one["testbed"], one["launcher"]), []).append(one)
    return pd.DataFrame(
        [
            {
                "experiment": f"{PAPER}/{experiment}",
                "testbed": testbed,
                "launcher": launcher,
                "hardware": ", ".join(sorted({s["hardware"]["class"] for s in runs})),
                "cells": str(len(runs)),
                "results": origin(runs),
                "commit": ", ".join(sorted({commit(s) for s in runs})),
                "torch": ", ".join(sorted({str(s["provenance"]["versions"].get("torch")) for s in runs})),
                "finished": max(map(finished, runs))[:10],
            }
            for (experiment, testbed, launcher), runs in rows.items()
        ]
    )


def commit(summary: Summary) -> str:
    """The short commit, with a plus where files had been changed."""
    made = summary["provenance"]
    return f"{str(made.get('commit') or DASH)[:8]}{'+' if made.get('dirty') else ''}"
