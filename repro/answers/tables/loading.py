"""Read the runs and sweeps of a paper as summaries for pages.

A page shows the committed runs (`reference`) and those of the workspace together; a summary's `root` says which it is.
`repro.records.catalogue` decides which run replaces which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.records import catalogue
from repro.records.kinds import KINDS as KINDS
from repro.records.sweep import Draw

Summary = dict[str, Any]


@dataclass(frozen=True)
class Drawn:
    """A sweep over draws: the summary of its run as configured, and its draws."""

    summary: Summary
    draws: Sequence[Draw]


OF_PAPERS = ("paper/", "emulated/")  # testbeds
ASSUMED = ("inputs", "bounds")  # entries of a testbed with the uncertainty of its parameters
NO_PARAMETERS = (*ASSUMED, "claims")  # entries of a testbed
QUICK = "quick"  # a scale for trying out, whose numbers are replaced by those of any other
# Experiments of the validation that count neither for its goal nor for the error of simulated numbers: ranks share
# cores, which the simulation does not model; or an experiment repeats another to find a cause.
APART = ("contention", "slowed")


def read(paper: str, root: Path | None = None) -> list[Summary]:
    """The summary of every finished run of a paper, in path order.

    root: a results folder or the reference, read alone; None: the workspace and the reference.
    """
    return [shown(run) for run in catalogue.runs(paper, root)]


def shown(run: catalogue.Found) -> Summary:
    """A run's summary for pages."""
    return run.summary | _testbed(run.summary) | {"root": run.origin}


def sweeps(paper: str, root: Path | None = None) -> list[Drawn]:
    """The sweeps of a paper."""
    return [Drawn(shown(run), each.draws) for run, each in catalogue.sweeps(paper, root)]


def trains(summary: Summary) -> bool:
    """Whether a run is a training, not a probe."""
    return bool(summary.get("program", "train") == "train")


def _testbed(summary: Summary) -> dict[str, Any]:
    """The parameters of a run's testbed, and whether some are assumed; old records of a paper's testbed do not say."""
    model = summary.get("testbed_model")
    if not isinstance(model, dict):
        return {}
    old = "inputs" not in model and str(summary["testbed"]).startswith(OF_PAPERS)
    parameters = {name: value for name, value in model.items() if name not in NO_PARAMETERS}
    return {"testbed_model": parameters, "assumed": old or any(model.get(name) for name in ASSUMED)}
