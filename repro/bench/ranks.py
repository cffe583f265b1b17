"""Start the ranks of a benchmark and collect their times."""

from __future__ import annotations

import json
from typing import Any

from repro.launch.local import environment, mpirun_command, torchrun_command
from repro.launch.supervise import Ranks

LAUNCHERS = {"mpi": ("mpirun", mpirun_command), "torch": ("torchrun", torchrun_command)}
STALL_S = 150.0  # a little more than a rank's own limit, whose message says more


def run_jobs(fabric: str, ranks: int, jobs: list[dict[str, Any]], rounds: int = 1) -> list[list[float]]:
    """The seconds of every repetition of each job, on `ranks` processes; the ranks' own errors are raised here."""
    name, command = LAUNCHERS[fabric]
    given = json.dumps({"launcher": name, "rounds": rounds, "jobs": jobs})
    # both launchers hand what follows to Python; torchrun takes `-m` as an option of its own
    processes = Ranks(command(ranks, ["-m", "repro.bench.rank_program", given]), environment(1), None)
    found: list[list[float]] = [[] for _ in jobs]
    try:
        processes.follow(lambda message: found[message["job"]].extend(message["seconds"]), STALL_S)
    finally:
        processes.stop()
    return found
