"""The loop's overhead: `dsync` of one rank through the harness against a bare PyTorch loop of the same training.

The same measurement as program `loop` (repro/probes/loop.py), of the MNIST-MLP on one thread of a CPU. As a rank
(`python -m repro.bench.loop ITERATIONS TURNS`) it prints one line for the parent.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

from repro.bench.goals import Goal, ratio

ITERATIONS, TURNS = 100, 24
SETUP = (
    *("strategy=dsync", "testbed=here", "workers=1", "batch=100", "seed=1", "seeds=1", "device=cpu", "grid=null"),
    *("optimizer.lr=0.05", "optimizer.momentum=0.9"),
)
STALL_S = 120.0


def measure(iterations: int = ITERATIONS, turns: int = TURNS) -> dict[str, Any]:
    """{ratio, of_best, harness_s, bare_s, dataset, ..., against_goals}; on one MPI rank.

    harness_s, bare_s: CPU seconds of a step {median, min, all}. ratio: of the neighbouring turns {median, min, max};
    of_best: of the two sides' least, which the rest of the machine has disturbed least, and which the goal is on.
    """
    from repro.launch.local import environment, mpirun_command
    from repro.launch.supervise import Ranks

    program = ["-m", "repro.bench.loop", str(iterations), str(turns)]
    heard: list[dict[str, Any]] = []
    rank = Ranks(mpirun_command(1, program), environment(1), None)
    try:
        rank.follow(heard.append, STALL_S)
    finally:
        rank.stop()
    return next(message["loop"] for message in heard if "loop" in message)


def table(result: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"loop overhead: MNIST-MLP on {result['dataset']}, batch {result['batch']}, one rank, one thread",
            f"  harness (dsync)  {result['harness_s']['median'] * 1e3:8.3f} ms of CPU a step",
            f"  bare PyTorch     {result['bare_s']['median'] * 1e3:8.3f} ms of CPU a step",
            f"  ratio            {result['of_best']:8.3f} of the best turns; of neighbouring ones "
            "{median:.3f} ({min:.3f}-{max:.3f})".format(**result["ratio"]),
        ]
    )


def main(iterations: int, turns: int) -> None:
    import torch

    from repro import data
    from repro.experiment.expand import expand
    from repro.fabric.real.mpi import MpiFabric
    from repro.probes import loop

    torch.set_num_threads(1)
    (planned,) = expand("pipesgd/fig4-mnist", SETUP)
    dataset = data.of(planned.config)
    found = loop.compare(MpiFabric(), planned.config, dataset, iterations, turns)
    taken = {name: [row[name] for row in found["rows"]] for name in ("bare_s", "harness_s")}
    over = ratio(taken["harness_s"], taken["bare_s"])
    goal = Goal("CPU time of a step through the harness over a bare PyTorch loop's", loop.OVERHEAD)
    result = {
        "dataset": dataset.name,
        "batch": planned.config.batch,
        "iterations_a_turn": iterations,
        **{name: {"median": statistics.median(all_), "min": min(all_), "all": all_} for name, all_ in taken.items()},
        "ratio": over,
        "of_best": found["of_best"],
        "against_goals": [goal.of(found["of_best"], (over["min"], over["max"]))],
        "same_weights": found["same_weights"],
    }
    print("@" + json.dumps({"loop": result}), flush=True)


if __name__ == "__main__":
    from repro.rank.main import guarded

    guarded(lambda: main(int(sys.argv[1]), int(sys.argv[2])))
