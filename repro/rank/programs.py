"""The whole program of one rank, training or a probe; an exception in it is one line with rank, file and line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repro.core import errors
from repro.core.errors import UNUSABLE, Crashed, ReproError
from repro.core.paths import EVENTS_FILE, PACKAGE
from repro.core.registry import PLUGINS, PROBES, TRAIN
from repro.experiment import needs
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.rank import meters
from repro.rank.meters import core_meter_for, cpu_taken
from repro.rank.summary import of_probe
from repro.records import store
from repro.records.events import EventLog


def run_program(fabric: Fabric, config: RunConfig, folder: Path) -> None:
    """Run the configured program on a started fabric, and close it."""
    with locating_errors(fabric.rank, config), meters.explaining_errors(fabric.rank, config):
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
    finding = probe.run_alone(config) if needs.runs_alone(probe) else probe.run(fabric, config, folder)
    taken = cpu_taken(fabric.exchange(meter.since_last() if meter else None))
    if fabric.rank == 0:
        events = EventLog(folder / EVENTS_FILE)
        events.append("run_start", key=config.key, iteration=0)
        events.append("run_end")
        events.flush()
        result = {"found": finding.result, "metrics": finding.metrics, "line": finding.line}
        store.write(folder, of_probe(folder, config, finding.facts(fabric) | {"cpu_taken": taken}, result))
    fabric.exchange(None)
    fabric.close()


@contextmanager
def locating_errors(rank: int, config: RunConfig) -> Iterator[None]:
    """Convert exceptions that are no ReproError to Crashed; the traceback goes to stderr, and so to the log."""
    try:
        yield
    except ReproError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in UNUSABLE:
            raise
        traceback.print_exc()
        project = str(PACKAGE)
        where = errors.describe_error(error, plugin_files(config).__contains__, lambda file: file.startswith(project))
        raise Crashed(f"rank {rank}: {where}") from None


def plugin_files(config: RunConfig) -> set[str]:
    """The files of the plugins that a run uses."""
    modules = [registry.module_of(getattr(config, group).name) for group, registry in PLUGINS.items()]
    modules += [PROBES.module_of(config.program)] if config.program in PROBES.names() else []
    return {str(sys.modules[name].__file__) for name in modules if name in sys.modules}
