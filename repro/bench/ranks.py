"""Start the ranks of a benchmark and collect their times."""

from __future__ import annotations

import json
from typing import Any

from repro.launch.local import environment, mpirun_command, torchrun_command
from repro.launch.supervise import Ranks

LAUNCHERS = {"mpi": ("mpirun", mpirun_command), "torch": ("torchrun", torchrun_command)}
STALL_S = 150.0  # a little more than a rank's own limit, whose message says more


def run_jobs(
    fabric: str, ranks: int, jobs: list[dict[str, Any]], rounds: int = 1, program: str = "repro.bench.rank_program"
) -> list[list[Any]]:
    """What `ranks` processes find in each job: the seconds of every repetition, or what else the program says.

    program: the module that a rank runs. The ranks' own errors are raised here.
    """
    name, command = LAUNCHERS[fabric]
    given = json.dumps({"launcher": name, "rounds": rounds, "jobs": jobs})
    # both launchers hand what follows to Python; torchrun takes `-m` as an option of its own
    processes = Ranks(command(ranks, ["-m", program, given]), environment(1), None)
    found: list[list[Any]] = [[] for _ in jobs]
    try:
        processes.follow(lambda message: found[message["job"]].extend(message["seconds"]), STALL_S)
    finally:
        processes.stop()
    return found
