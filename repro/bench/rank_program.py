"""One rank of a benchmark on a real fabric: runs the jobs of a JSON argument; rank 0 prints `@{...}` for each.

    {"launcher": "mpirun" | "torchrun", "rounds": how often the list is gone through,
     "jobs": [{"name": ..., "bytes": ..., "codec": ..., "repeat": ..., "pieces": ... (or none)}, ...]}

A line holds the job's index and `seconds`, one a repetition: the slowest rank's, all having started together.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from repro import launch
from repro.bench.calls import call, checker, pattern
from repro.fabric.base import Fabric
from repro.fabric.collectives import PIECES
from repro.rank import guarded, start_fabric

TIMEOUT_S = 120.0


def run_job(fabric: Fabric, job: dict[str, Any]) -> list[float]:
    """Seconds of every repetition, after one that is not counted; every result is checked."""
    name, codec, elements = job["name"], job["codec"], job["bytes"] // 4
    collective = call(name, fabric, elements, codec, job.get("pieces", PIECES))
    check = checker(name, fabric, elements, codec)
    mine = pattern(fabric.rank, elements)
    vector = torch.empty_like(mine)
    seconds = []
    for _ in range(job["repeat"] + 1):
        vector.copy_(mine)
        fabric.exchange(None)  # polls: a rank that is late finds the cores free
        fabric.barrier()
        began = fabric.now()
        result = collective(vector)
        took = fabric.now() - began
        seconds.append(max(fabric.exchange(took)))
        check(result)
    return seconds[1:]


def main(given: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    config = {"testbed": {"launcher": given["launcher"]}, "timeout_s": TIMEOUT_S, "device": "cpu"}
    fabric = start_fabric(config, launch.LAUNCHERS[given["launcher"]].fabric)
    for _ in range(given["rounds"]):  # rounds of all jobs, so that a busy minute of the machine hits all of them
        for index, job in enumerate(given["jobs"]):
            seconds = run_job(fabric, job)
            if fabric.rank == 0:
                print("@" + json.dumps({"job": index, "seconds": seconds}), flush=True)
    fabric.close()


if __name__ == "__main__":
    guarded(lambda: main(json.loads(sys.argv[1])))
