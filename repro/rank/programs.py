"""The whole program of one rank: training, or a probe."""

from __future__ import annotations

from pathlib import Path

from repro.core.registry import PROBES, TRAIN
from repro.experiment import programs
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.rank import crash, memory
from repro.rank.core_meter import core_meter_for, cpu_taken
from repro.rank.summary import of_probe
from repro.records import store
from repro.records.events import EventLog


def run_program(fabric: Fabric, config: RunConfig, folder: Path) -> None:
    """Run the configured program on a started fabric, and close it."""
    with crash.locating_errors(fabric.rank, config), memory.explaining_errors(fabric.rank, config):
        if config.program == TRAIN:
            from repro.rank.session import run_rank

            run_rank(fabric, config, folder)
        else:
            run_probe(fabric, config, folder)


def run_probe(fabric: Fabric, config: RunConfig, folder: Path) -> None:
    """Run a probe; rank 0 writes the record, for which every rank waits.

    The event log has only start and end: a record without a log was not made here, and does not count as done.
    """
    meter = core_meter_for(config)
    probe = PROBES.load(config.program)
    finding = probe.run_alone(config) if programs.runs_alone(probe) else probe.run(fabric, config, folder)
    taken = cpu_taken(fabric.exchange(meter.since_last() if meter else None))
    if fabric.rank == 0:
        events = EventLog(folder / "events.jsonl")
        events.append("run_start", key=config.key, iteration=0)
        events.append("run_end")
        events.flush()
        result = {"found": finding.result, "metrics": finding.metrics, "line": finding.line}
        store.write(folder, of_probe(folder, config, finding.facts(fabric) | {"cpu_taken": taken}, result))
    fabric.exchange(None)
    fabric.close()
