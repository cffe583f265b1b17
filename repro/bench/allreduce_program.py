"""One rank of the benchmark of allreduces; rank 0 prints `@{...}` for each job of a JSON argument.

{"launcher", "rounds", "jobs": [{"names", "bytes", "turns"}]} -> a turn {name: seconds}, of the slowest rank; the names
take turns, on data whose sum is checked. "MPI_Allreduce" is MPI's blocking call, whose algorithm OpenMPI's settings
choose; "native" is the one that does not block, which has algorithms of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

from repro.bench.calls import call, checker, pattern
from repro.bench.rank_program import main
from repro.fabric.base import Fabric
from repro.fabric.real.mpi import MpiFabric
from repro.rank.main import guarded

BLOCKING = "MPI_Allreduce"


def allreduce(fabric: Fabric, name: str, elements: int) -> Callable[[torch.Tensor], Any]:
    """In place on a vector (elements,)."""
    if name != BLOCKING:
        return call(name, fabric, elements, "none")
    assert isinstance(fabric, MpiFabric)
    library = fabric.blocking_allreduce

    def blocking(vector: torch.Tensor) -> torch.Tensor:
        library(vector)
        return vector

    return blocking


def run_job(fabric: Fabric, job: dict[str, Any], turn: int) -> list[Any]:
    elements = job["bytes"] // 4
    calls = {name: allreduce(fabric, name, elements) for name in job["names"]}
    check, mine = checker("ring", fabric, elements, "none"), pattern(fabric.rank, elements)
    vector, turns = torch.empty_like(mine), []
    for number in range(job["turns"] + 1):
        taken = {}
        for name in sorted(calls, reverse=bool(number % 2)):
            vector.copy_(mine)
            fabric.exchange(None)  # polls: a rank that is late finds the cores free
            fabric.barrier()
            began = fabric.now()
            calls[name](vector)
            taken[name] = max(fabric.exchange(fabric.now() - began))
            check(vector)
        turns.append(taken)
    return turns[1:]


if __name__ == "__main__":
    guarded(lambda: main(json.loads(sys.argv[1]), run_job))
