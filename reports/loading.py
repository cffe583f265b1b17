"""Reading summaries: each is checked for what the reports need; what is wrong with one is a line with its path.

A page shows the committed results (`reference`) and those of this workspace together, each summary marked with where it
is from (`root`); `repro.records.catalogue` tells which run takes the place of which. Of several runs of one variant and
seed that may stand together, the latest counts, wherever it is from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from repro.common.errors import InputError
from repro.common.phases import PHASES
from repro.records import catalogue
from repro.records.kinds import KINDS
from repro.records.store import SCHEMA
from repro.reports import foreign

Summary = dict[str, Any]

# What the reports read of every summary (the schema stands in `repro.records.store`).
REQUIRED = (
    "paper",
    "experiment",
    "setting",
    "strategy",
    "options",
    "kind",
    "testbed",
    "fabric",
    "launcher",
    "workers",
    "seed",
    "breakdown",
    "batch",
    "epochs",
    "iterations",
    "metric",
    "dataset",
    "model",
    "optimizer",
    "curve",
    "final",
    "targets",
    "step",
    "phases",
    "communication",
    "bytes_sent",
    "hardware",
    "provenance",
)
MAPPINGS = (
    "dataset",
    "model",
    "optimizer",
    "final",
    "targets",
    "step",
    "phases",
    "communication",
    "hardware",
    "provenance",
)
INNER = {
    "dataset": ("name", "standin"),
    "model": ("name",),
    "step": ("mean_s",),
    "final": ("train_s",),
    "phases": PHASES,
    "communication": ("total_s", "exposed_s", "overlapped_s"),
    "hardware": ("class",),
}


def load(paper: str, root: Path | None = None) -> list[Summary]:
    """Every finished training run's summary of a paper in path order, checked to have what the reports read."""
    return read(paper, root, lambda program: program == "train", problem)


def read(
    paper: str, root: Path | None, wanted: Callable[[str], bool], problem: Callable[[Summary], str | None]
) -> list[Summary]:
    """Every finished summary of the programs `wanted`, in path order; `problem` says in one line what is wrong.

    root: a results folder or the reference, to be read alone; None: the workspace and the reference.
    """
    found = []
    for origin, path, summary in catalogue.runs(paper, root):
        summary = foreign.taken(summary)
        wrong = _frame_problem(summary)
        if not wrong and wanted(summary.get("program", "train")):
            wrong = problem(summary)
        if wrong:
            raise InputError(f"{path}: not a readable summary ({foreign.plain(wrong)}); remove it to repeat the run")
        if wanted(summary.get("program", "train")) and summary.get("status", "finished") == "finished":
            own = {"root": origin, "figure": summary["experiment"]}  # which pages may call otherwise
            found.append(summary | _testbed(summary) | own)
    return found


def _testbed(summary: Summary) -> dict[str, Any]:
    """The parameters of a run's testbed, without what its file says of how far they may be off: no parameter."""
    model = summary.get("testbed_model")
    if not isinstance(model, dict):
        return {}
    return {"testbed_model": {name: value for name, value in model.items() if name not in ("bounds", "claims")}}


def origin(summaries: Iterable[Summary]) -> str:
    """`reference`, `workspace` or `reference / workspace`"""
    return " / ".join(sorted({root for summary in summaries if (root := summary.get("root"))}))


def _frame_problem(summary: Any) -> str | None:
    """What is wrong with any summary, whichever program wrote it."""
    if not isinstance(summary, dict):
        return "not an object"
    if summary.get("schema", SCHEMA) != SCHEMA:
        return f"schema {summary['schema']}, this version reads {SCHEMA}"
    if not isinstance(summary.get("program", "train"), str):
        return "program is not a name"
    return None


def problem(summary: Summary) -> str | None:
    if missing := [key for key in REQUIRED if key not in summary]:
        return f"missing: {', '.join(missing)}"
    for key in MAPPINGS:
        if not isinstance(summary[key], dict):
            return f"{key} is not an object"
    for key, names in INNER.items():
        if missing := [name for name in names if name not in summary[key]]:
            return f"missing in {key}: {', '.join(missing)}"
    if summary["metric"] not in summary["final"]:
        return f"missing in final: {summary['metric']}"
    if summary["kind"] not in KINDS:
        return f"kind '{summary['kind']}', not {' or '.join(KINDS)}"
    return None
