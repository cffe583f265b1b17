"""Reading summaries: the records of a paper as pages take them.

A page shows the committed results (`reference`) and those of this workspace together, each summary marked with where it
is from (`root`); `repro.records.catalogue` tells which run takes the place of which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.answers.tables import foreign
from repro.records import catalogue, identity
from repro.records.kinds import KINDS as KINDS
from repro.records.sweep import Draw

Summary = dict[str, Any]


@dataclass(frozen=True)
class Drawn:
    """A sweep as pages take it: the summary of its run as configured, and its draws."""

    summary: Summary
    draws: Sequence[Draw]


OF_PAPERS = ("paper/", "emulated/")  # testbeds
ASSUMED = ("inputs", "bounds")  # of a testbed: how far its parameters may be off
BESIDES = (*ASSUMED, "claims")  # of a testbed: no parameters
QUICK = "quick"  # the scale whose numbers stand for no others
# Experiments of the validation that count neither for its goal nor for a simulated number's error: ranks that share
# cores, which no twin does; and what repeats others to find a cause.
APART = ("contention", "slowed")


def read(paper: str, root: Path | None = None) -> list[Summary]:
    """The summary of every finished run of a paper, in path order.

    root: a results folder or the reference, to be read alone; None: the workspace and the reference.
    """
    return [shown(run) for run in catalogue.runs(paper, root)]


def shown(run: catalogue.Found) -> Summary:
    """A run's summary as pages take it."""
    traced = {"trace": run.summary.get("trace", [])}  # half a million: `schedules.boxes` escapes those that are drawn
    summary = foreign.taken(run.summary | {"trace": []}) | traced
    return summary | _testbed(summary) | _variant(run) | {"root": run.origin}


def sweeps(paper: str, root: Path | None = None) -> list[Drawn]:
    """The sweeps of a paper."""
    return [Drawn(shown(run), each.draws) for run, each in catalogue.sweeps(paper, root)]


def trains(summary: Summary) -> bool:
    """Whether a run trained, and did not run another program, a probe."""
    return bool(summary.get("program", "train") == "train")


def finished(summary: Summary) -> str:
    """When a run finished, as text that sorts: ISO text, or nothing."""
    return str(summary["provenance"].get("finished_at") or "")


def latest(runs: Iterable[Summary], names: Iterable[str]) -> list[Summary]:
    """Of the runs that are the same in these entries, and of one machine, the one that finished last; in order."""
    names, found = list(names), {}
    for run in sorted(runs, key=finished):
        found[(*(str(run.get(name)) for name in names), run["hardware"]["class"])] = run
    return [found[key] for key in sorted(found)]


def _variant(found: catalogue.Found) -> dict[str, str]:
    """A run that is not as its experiment has it is of a variant of its own."""
    own = found.record.identity
    return {"variant": foreign.taken(identity.label(own.variant, own.values, own.changes))} if own.changes else {}


def _testbed(summary: Summary) -> dict[str, Any]:
    """The parameters of a run's testbed, without what its file says of how far they may be off: no parameter."""
    model = summary.get("testbed_model")
    if not isinstance(model, dict):
        return {}
    parameters = {name: value for name, value in model.items() if name not in BESIDES}
    return {"testbed_model": parameters, "assumed": _assumed(str(summary["testbed"]), model)}


def _assumed(testbed: str, model: dict[str, Any]) -> bool:
    """Whether something is assumed of a testbed: of a record that is too old to say so, of every one of a paper."""
    return any(model.get(name) for name in ASSUMED) or ("inputs" not in model and testbed.startswith(OF_PAPERS))
