"""The loop's overhead: `dsync` of one rank through the harness against a bare PyTorch loop of the same training.

Both train the MNIST-MLP with the same minibatches and optimizer, in turns of a few hundred milliseconds in one
process, so that a busy machine slows both. As a rank (`python -m repro.bench.loop ITERATIONS TURNS`) it prints one line
for the parent.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GOAL = 1.05
BATCH, ITERATIONS, TURNS = 100, 100, 24
OPTIMIZER: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.0}
SEED = 1
NEVER = 10**9
STALL_S = 120.0


def measure(iterations: int = ITERATIONS, turns: int = TURNS) -> dict[str, Any]:
    """{ratio (of medians), goal, harness_s, bare_s (a step, median and all turns), dataset, ...}; on one MPI rank."""
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
            f"  harness (dsync)  {result['harness_s']['median'] * 1e3:8.3f} ms a step",
            f"  bare PyTorch     {result['bare_s']['median'] * 1e3:8.3f} ms a step",
            f"  ratio            {result['ratio']:8.3f}    goal at most {result['goal']} "
            f"(neighbouring turns: {result['ratio_of_pairs']:.3f})",
        ]
    )


class Bare:
    """What somebody would write without a harness."""

    def __init__(self, dataset: Any):
        import torch

        from repro import models
        from repro.data.base import Batches

        self.model = models.build("mnist_mlp", dataset.input_shape, dataset.classes, SEED)
        self.optimizer = torch.optim.SGD(self.model.parameters(), **OPTIMIZER)
        self.batches = Batches(dataset.train, BATCH, SEED)
        self.done = 0

    def turn(self, iterations: int) -> float:
        """Seconds of that many iterations."""
        from torch.nn import functional

        model, optimizer, batches = self.model, self.optimizer, self.batches
        began = time.perf_counter()
        for step in range(self.done, self.done + iterations):
            x, y = batches[step]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        took = time.perf_counter() - began
        self.done += iterations
        return took


class Harness:
    """The same through Worker, strategy, training loop and run log; evaluation falls outside the training clock."""

    def __init__(self, dataset: Any, folder: Path):
        import torch

        from repro import models
        from repro.data.base import Batches
        from repro.experiment.optimizer import Optimizer
        from repro.fabric.mpi import MpiFabric
        from repro.rank.checkpoints import Checkpoints
        from repro.rank.recorder import RunLog
        from repro.records.events import EventLog
        from repro.strategies.dsync import DSync
        from repro.training.clock import Clock
        from repro.training.model_shard import ModelShard
        from repro.training.worker import Worker

        def model() -> torch.nn.Sequential:
            return models.build("mnist_mlp", dataset.input_shape, dataset.classes, SEED)

        fabric = MpiFabric()
        batches = Batches(dataset.train, BATCH, SEED)
        self.worker = Worker(
            workers=1,
            fabric=fabric,
            clock=Clock(fabric),
            model_shard=ModelShard(model(), Optimizer(**OPTIMIZER), torch.device("cpu")),
            batches=batches,
            iterations_per_epoch=batches.per_epoch,
            seed=SEED,
        )
        self.strategy = DSync()
        self.strategy.setup(self.worker)
        checkpoints = Checkpoints(folder, fabric.rank)
        events = EventLog(folder / "events.jsonl")
        self.log = RunLog(self.worker, self.strategy, model(), dataset, checkpoints, events, 0)
        self.done = 0

    def turn(self, iterations: int) -> float:
        from repro.rank.loop import train
        from repro.training.stops import TrainingPlan

        before, start = self.log.train_s, self.done
        self.done += iterations
        train(self.worker, self.strategy, TrainingPlan(self.done, NEVER, NEVER), self.log, start)
        return self.log.train_s - before


def main(iterations: int, turns: int) -> None:
    import torch

    from repro import data

    torch.set_num_threads(1)
    dataset = data.load("mnist")
    with tempfile.TemporaryDirectory() as folder:
        bare, harness = Bare(dataset), Harness(dataset, Path(folder))
        sides: dict[str, Bare | Harness] = {"bare_s": bare, "harness_s": harness}
        for side in sides.values():
            side.turn(iterations)  # not counted: first calls allocate
        taken: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(turns):
            for name in sorted(sides, reverse=bool(turn % 2)):
                taken[name].append(sides[name].turn(iterations) / iterations)
        weights = harness.worker.model_shard.weights
        same = torch.equal(weights, torch.cat([p.detach().view(-1) for p in bare.model.parameters()]))
    medians: dict[str, dict[str, Any]] = {
        name: {"median": statistics.median(all_), "all": all_} for name, all_ in taken.items()
    }
    result = {
        "dataset": dataset.name,
        "batch": BATCH,
        "iterations_a_turn": iterations,
        **medians,
        "ratio": medians["harness_s"]["median"] / medians["bare_s"]["median"],
        "ratio_of_pairs": statistics.median(h / b for h, b in zip(taken["harness_s"], taken["bare_s"])),
        "goal": GOAL,
        "same_weights": same,
    }
    print("@" + json.dumps({"loop": result}), flush=True)


if __name__ == "__main__":
    from repro.rank.main import guarded

    guarded(lambda: main(int(sys.argv[1]), int(sys.argv[2])))
