"""Reading summaries: the records of a paper as pages take them.

A page shows the committed results (`reference`) and those of this workspace together, each summary marked with where it
is from (`root`); `repro.records.catalogue` tells which run takes the place of which. Of several runs of one variant and
seed that may stand together, the latest counts, wherever it is from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from repro.answers.tables import foreign
from repro.records import catalogue
from repro.records.kinds import KINDS as KINDS

Summary = dict[str, Any]
# Experiments of the validation that count neither for its goal nor for a simulated number's error: ranks that share
# cores, which no twin does; and what repeats others to find a cause.
APART = ("contention", "slowed")


def read(paper: str, root: Path | None = None) -> list[Summary]:
    """The summary of every finished run of a paper, in path order.

    root: a results folder or the reference, to be read alone; None: the workspace and the reference.
    """
    found = []
    for run in catalogue.runs(paper, root):
        summary = foreign.taken(run.summary)
        found.append(summary | _testbed(summary) | {"root": run.origin})
    return found


def trains(summary: Summary) -> bool:
    """Whether a run trained, and did not run another program, a probe."""
    return bool(summary.get("program", "train") == "train")


def _testbed(summary: Summary) -> dict[str, Any]:
    """The parameters of a run's testbed, without what its file says of how far they may be off: no parameter."""
    model = summary.get("testbed_model")
    if not isinstance(model, dict):
        return {}
    return {"testbed_model": {name: value for name, value in model.items() if name not in ("bounds", "claims")}}


def origin(summaries: Iterable[Mapping[str, Any]]) -> str:
    """`reference`, `workspace` or `reference / workspace`"""
    return " / ".join(sorted({root for summary in summaries if (root := summary.get("root"))}))
