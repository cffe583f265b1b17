"""What one draw of a run's assumed inputs gives: the run itself, simulated in this process without arithmetic."""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import partial
from pathlib import Path

from repro import data
from repro import fabric as fabrics
from repro.core.errors import FaultError
from repro.experiment import draws
from repro.experiment.programs import ranks
from repro.experiment.schema import RunConfig
from repro.rank import programs
from repro.rank.factory import virtual_costs, virtual_network
from repro.records import store
from repro.records.record import Record


def evaluate(config: RunConfig) -> Record:
    """The record of a simulated run, times alone; nothing of it is kept in the workspace."""
    config = draws.cut(config, data.of(config).iterations(config.batch)) if config.program == "train" else config
    testbed = config.testbed
    assert testbed.kind == "simulated"
    with tempfile.TemporaryDirectory(prefix="repro-draw-") as there, _quiet():
        folder = Path(there)
        run = partial(programs.run, config=config, folder=folder)
        fabrics.load("virtual").run(ranks(config), run, virtual_network(testbed, config.seed), virtual_costs(testbed))
        found = store.read(folder)
    if found is None:
        raise FaultError(f"{config.experiment}, {config.variant}: the simulation ended without a result")
    return found


@contextlib.contextmanager
def _quiet():
    """Without the messages that a rank has for its launcher."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield
