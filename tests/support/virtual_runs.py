"""Whole runs as a command makes them, but on the virtual fabric: all ranks in this process."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from repro.core.errors import FaultError
from repro.experiment import needs
from repro.experiment.expand import expand_runs
from repro.experiment.schema import RunConfig
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.rank.programs import run_program
from repro.rank.step_log import StepLog
from repro.testing import small
from tests.support.records import read_summary

EXPERIMENT = "pipesgd/fig4-mnist"
QUICK = ("testbed=virtual", "dataset.standin=always", "batch=60", "eval_every=0.2", "checkpoint_every=0.1", "epochs=1")


def configured(experiment: str, overrides: Sequence[str], scale: str | None = None) -> RunConfig:
    """The configuration of the only run that an experiment has under these overrides."""
    (planned,) = expand_runs(experiment, overrides, scale)
    return planned.config.model_copy(update={"key": "k", "hardware": {"class": "none"}, "provenance": {}})


def ended(
    config: RunConfig, folder: Path, network: virtual.Network = small.NETWORK, costs: Costs = small.COSTS
) -> dict[str, Any]:
    """The summary of a run."""
    folder.mkdir(exist_ok=True)
    virtual.run(needs.count_ranks(config), lambda fabric: run_program(fabric, config, folder), network, costs)
    return read_summary(folder)


@functools.cache
def _quick(*overrides: str) -> RunConfig:
    return configured(EXPERIMENT, [*QUICK, "workers=3", *overrides])


def run(folder: Path, *overrides: str) -> dict[str, Any]:
    """The summary of a run of 24 iterations of three workers, with a checkpoint every second iteration."""
    return ended(_quick(*overrides), folder)


def killed(folder: Path, monkeypatch, steps: int, *overrides: str) -> dict[int, list[Path]]:
    """`run`, ended after so many steps of all ranks together; returns its checkpoints, newest first."""
    step, left = StepLog.step, [steps]

    def dies(self, work):
        left[0] -= 1
        if left[0] < 0:
            raise FaultError("died")
        return step(self, work)

    with monkeypatch.context() as patch:
        patch.setattr(StepLog, "step", dies)
        with pytest.raises(FaultError, match="died"):
            run(folder, *overrides)
    found: dict[int, list[Path]] = {}
    for path in sorted((folder / "checkpoints").glob("*.pt"), reverse=True):
        found.setdefault(int(path.name[9:18]), []).append(path)
    return found
