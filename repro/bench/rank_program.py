"""One rank of a benchmark on a real fabric: runs the jobs of a JSON argument; rank 0 prints `@{...}` for each.

    {"launcher": "mpirun" | "torchrun", "device": "cpu" | "cuda", "rounds": how often the list is gone through,
     "jobs": [{"name": ..., "bytes": ..., "codec": ..., "repeat": ...,
              "pieces": ..., "sparsity": {density, allgather}, "device": as above (or none of these)}, ...]}

A line holds the job's index and `seconds`, one a repetition: the slowest rank's, all having started together.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

from repro import fabric as fabrics
from repro.bench.calls import call, checker, pattern
from repro.bench.sparse_calls import Sparsity
from repro.fabric.base import Fabric
from repro.fabric.collectives.dense import PIECES
from repro.fabric.real.gpus import pick_device
from repro.launch.local import Mpirun, Torchrun
from repro.rank.main import guarded

TIMEOUT_S = 120.0
FABRICS = {"mpirun": Mpirun.fabric, "torchrun": Torchrun.fabric}


def run_job(fabric: Fabric, job: dict[str, Any], turn: int) -> list[float]:
    """Seconds of every repetition, after one that is not counted; every result is checked."""
    name, codec, elements = job["name"], job["codec"], job["bytes"] // 4
    sparsity = Sparsity(**job.get("sparsity", {}))
    collective = call(name, fabric, elements, codec, job.get("pieces", PIECES), sparsity)
    check = checker(name, fabric, elements, codec, sparsity)
    device = pick_device(job.get("device", "cpu"), fabric.rank)
    settle = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    mine = pattern(fabric.rank, elements).to(device)
    vector = torch.empty_like(mine)
    seconds = []
    for _ in range(job["repeat"] + 1):
        vector.copy_(mine)
        settle()
        fabric.exchange(None)  # polls: a rank that is late finds the cores free
        fabric.barrier()
        settle()  # NCCL's barrier has only been begun when it returns
        began = fabric.now()
        result = collective(vector)
        settle()
        took = fabric.now() - began
        seconds.append(max(fabric.exchange(took)))
        check(result)
    return seconds[1:]


def main(given: dict[str, Any], run: Callable[[Any, dict[str, Any], int], list[Any]] = run_job) -> None:
    """All jobs, each by `run(fabric, job, turn)`, which says the same on every rank."""
    torch.set_num_threads(1)
    fabric = fabrics.load(FABRICS[given["launcher"]]).start(given["device"], "auto", TIMEOUT_S)
    for turn in range(given["rounds"]):  # rounds of all jobs, so that a busy minute of the machine hits all of them
        for index, job in enumerate(given["jobs"]):
            found = run(fabric, job, turn)
            if fabric.rank == 0:
                print("@" + json.dumps({"job": index, "seconds": found}), flush=True)
    fabric.close()


if __name__ == "__main__":
    guarded(lambda: main(json.loads(sys.argv[1])))
