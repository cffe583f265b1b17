"""One rank's whole part of a run: of training or of a probe."""

from __future__ import annotations

from pathlib import Path

from repro.core.registry import TRAIN
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.rank import crash, memory


def run(fabric: Fabric, config: RunConfig, folder: Path) -> None:
    """From a started fabric to its close."""
    with crash.located(fabric.rank, config), memory.explained(fabric.rank, config):
        if config.program == TRAIN:
            from repro.rank.session import run_rank

            run_rank(fabric, config, folder)
        else:
            from repro.rank import probe

            probe.run_rank(fabric, config, folder)
