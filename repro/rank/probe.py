"""A rank's part of a run that measures: the probe, and the record of what it found."""

from __future__ import annotations

from pathlib import Path

from repro.core.registry import PROBES
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.rank.summary import of_probe
from repro.records import store
from repro.records.events import EventLog


def run_rank(fabric: Fabric, config: RunConfig, folder: Path) -> None:
    """Rank 0 writes down what the probe found, for which every rank waits.

    The event log says no more than that the run ran here: a summary without one is somebody else's, and does not count
    as done.
    """
    finding = PROBES.load(config.program).run(fabric, config, folder)
    if fabric.rank == 0:
        events = EventLog(folder / "events.jsonl")
        events.append("run_start", key=config.key, iteration=0)
        events.append("run_end")
        events.flush()
        found = {"found": finding.result, "metrics": finding.metrics, "line": finding.line}
        store.write(folder, of_probe(folder, config, finding.facts(fabric), found))
    fabric.exchange(None)
    fabric.close()
