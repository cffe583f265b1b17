"""One rank of the benchmark of partial collectives; rank 0 prints `@{...}` for each job of a JSON argument.

{"launcher": "mpirun", "rounds": how often the list is gone through, "jobs": [...]}
{"what": "latency", "collective", "algorithm", "bytes", "step_s", "calls"}
    -> the row of `repro.probes.shared.skewed.measure`, and cpu_s: of a call, mean over ranks
{"what": "progress", "tasks": bool, "seconds"}                  -> multiplications a second, of each rank
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from repro.bench.rank_program import main
from repro.fabric.base import BACKGROUND, Fabric
from repro.fabric.collectives.activation import SOLO, Activation
from repro.fabric.collectives.partial import PartialAllreduce
from repro.fabric.collectives.send_buffer import Whole
from repro.probes.shared import skewed
from repro.rank.main import guarded

SIDE = 512  # of the matrices: some milliseconds each, as a layer's pass
ELEMENTS = 1 << 20


def run_job(fabric: Fabric, job: dict[str, Any], turn: int) -> list[Any]:
    if job["what"] == "progress":
        with tasks(fabric) if job["tasks"] else without():
            mine = multiplications(fabric, job["seconds"])
        return fabric.exchange(mine)
    began = time.process_time()
    how = job["collective"], job["bytes"], job["step_s"], job["calls"], CPU, turn, job["algorithm"]
    row = skewed.measure(fabric, *how)
    of_ranks = fabric.exchange(time.process_time() - began)
    return [row | {"cpu_s": sum(of_ranks) / fabric.size / (job["calls"] + 1)}]


@contextmanager
def tasks(fabric: Fabric) -> Iterator[None]:
    """The tasks of a partial allreduce, waiting for a round that nobody starts."""
    send_buffer = Whole(fabric, ELEMENTS, 2 * fabric.size, CPU, channel=BACKGROUND)
    partial = PartialAllreduce(fabric, send_buffer, lambda start: Activation(fabric, SOLO, start))
    yield
    partial.close()


@contextmanager
def without() -> Iterator[None]:
    yield


def multiplications(fabric: Fabric, seconds: float) -> float:
    """Matrix products a second; every rank computes at once."""
    a, b, out = (torch.ones(SIDE, SIDE) for _ in range(3))
    fabric.exchange(None)
    fabric.barrier()
    began, done = fabric.now(), 0
    while (taken := fabric.now() - began) < seconds:
        torch.mm(a, b, out=out)
        done += 1
    return done / taken


CPU = torch.device("cpu")


if __name__ == "__main__":
    guarded(lambda: main(json.loads(sys.argv[1]), run_job))
