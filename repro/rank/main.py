"""The entry point of a rank's process: starts the fabric, runs the program, reports errors as one line.

A launcher starts it as `python -m mpi4py -m repro.rank.main FABRIC DIGEST RUN_FOLDER`, by torchrun, or once for all
virtual ranks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from repro import fabric as fabrics
from repro.core import locks, processes
from repro.core.errors import UNUSABLE, Crashed, FaultError, InputError, ReproError, error_place
from repro.core.processes import end_with_parent
from repro.experiment.launched import read_config
from repro.experiment.needs import count_ranks
from repro.fabric.base import FabricError
from repro.fabric.virtual.modelled import virtual_costs, virtual_network
from repro.rank import ends, preemption, preflight, programs
from repro.training import numerics


def main(fabric: str, digest: str, folder: Path) -> None:
    """Run one process. fabric: the name of the fabric for which its launcher starts ranks; digest: of the run's
    configuration (`repro.experiment.launched`); folder: the run's."""
    end_with_parent(signal.SIGKILL)  # a killed launcher cannot end its ranks itself
    lock = locks.take_lock(folder / locks.RANKS, fcntl.LOCK_SH)  # until this process ends
    if lock is None:
        raise FaultError(f"{folder}: another command is starting this run")
    ends.report_start()
    config = read_config(folder, digest)
    torch.set_num_threads(config.testbed.threads_per_rank)
    numerics.prepare_process(config.numerics)
    processes.translate_variables(fabric)
    if fabric == "virtual":
        if cores := os.environ.get("REPRO_CORES"):  # of this process, while other simulations have the others
            os.sched_setaffinity(0, map(int, cores.split(",")))
        preemption.listen_for_preemption()
        testbed = config.testbed
        assert testbed.kind == "simulated"
        run = partial(programs.run_program, config=config, folder=folder)
        network = virtual_network(testbed, config.seed)
        try:
            fabrics.load_fabric(fabric).run(count_ranks(config), run, network, virtual_costs(testbed))
        except FabricError as error:  # a repetition in virtual time takes the same course
            raise Crashed(str(error)) from error
        return
    if config.testbed.kind == "emulated":
        bed, emulated = config.testbed, fabrics.load_fabric(fabric)
        slowed = emulated.Dilation(bed.slow_down, bed.shrink, bed.alpha_s, bed.beta_s_per_byte)
        started = emulated.start(slowed, virtual_costs(bed), config.timeout_s)
    else:
        started = fabrics.load_fabric(fabric).start(config.device, config.testbed.backend, config.timeout_s)
    # not earlier: a rank that waits in a library for ranks that have ended must end by the signal
    preemption.listen_for_preemption()
    if tasks := getattr(started, "tasks", None):
        tasks.on_fatal = lambda error: stop_ranks(error.status, str(error))
    programs.run_program(started, preflight.check_ranks(started, config), folder)


def run_guarded(run: Callable[[], None]) -> None:
    """Call `run`; report an error as one line in the rank's file, and end all ranks."""
    try:
        run()
    except ReproError as error:
        stop_ranks(error.status, str(error), error.mark)
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        stop_ranks(InputError.status, f"{error_place(error)}: {error.strerror}")


def stop_ranks(status: int, message: str, kind: str | None = None) -> None:
    with contextlib.suppress(OSError):  # the disk may be full
        ends.report_end(kind or str(status), message)
    # one write, because several ranks may report the same error at the same moment
    os.write(sys.stderr.fileno(), f"repro-error[{status}] {message}\n".encode(errors="replace"))
    if "mpi4py.MPI" in sys.modules:
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(status)
    os._exit(status)


if __name__ == "__main__":
    run_guarded(lambda: main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
