"""Evaluates one draw of a run's assumed inputs by simulating the run in this process, without arithmetic."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from repro import data
from repro import fabric as fabrics
from repro.core.errors import FaultError
from repro.core.registry import TRAIN
from repro.experiment import draws
from repro.experiment.needs import count_ranks
from repro.experiment.schema import RunConfig
from repro.fabric.virtual.modelled import virtual_costs, virtual_network
from repro.rank import programs
from repro.records import store
from repro.records.record import Record


def simulate_draw(config: RunConfig) -> Record:
    """The record of a simulated run, times alone; the workspace is left unchanged."""
    config = (
        draws.cut_training(config, data.dataset_for(config).iterations(config.batch))
        if config.program == TRAIN
        else config
    )
    testbed = config.testbed
    assert testbed.kind == "simulated"
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="repro-draw-") as folder,
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),  # messages to the launcher
    ):
        run = partial(programs.run_program, config=config, folder=Path(folder))
        fabrics.load_fabric("virtual").run(
            count_ranks(config), run, virtual_network(testbed, config.seed), virtual_costs(testbed)
        )
        record = store.read(Path(folder))
    if record is None:
        raise FaultError(f"{config.experiment}, {config.variant}: the simulation ended without a result")
    # a probe books no seconds of its own: they say what more draws cost
    return record.model_copy(update={"wall": record.wall or {"total_s": time.perf_counter() - started}})
