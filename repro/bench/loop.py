"""The loop's overhead: `dsync` of one rank through the harness against a bare PyTorch loop of the same training.

Both train the MNIST-MLP with the same minibatches and optimizer, in turns of a few hundred milliseconds in one
process, so that a busy machine slows both; what is compared is CPU time, which it slows less. As a rank
(`python -m repro.bench.loop ITERATIONS TURNS`) it prints one line for the parent.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from repro.bench.goals import Goal, ratio
from repro.training.clock import Clock

OVERHEAD = Goal("CPU time of a step through the harness over a bare PyTorch loop's", 1.03)
BATCH, ITERATIONS, TURNS = 100, 100, 24
OPTIMIZER: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.0}
SEED = 1
NEVER = 10**9
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
        """CPU seconds of that many iterations."""
        from torch.nn import functional

        model, optimizer, batches = self.model, self.optimizer, self.batches
        began = time.process_time()
        for step in range(self.done, self.done + iterations):
            x, y = batches[step]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        took = time.process_time() - began
        self.done += iterations
        return took


class CpuClock(Clock):
    """cpu_s: of this process while the clock ran."""

    cpu_s = 0.0

    def start(self) -> None:
        super().start()
        self.cpu_since = time.process_time()

    def _stop(self) -> None:
        self.cpu_s += time.process_time() - self.cpu_since
        super()._stop()


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
        from repro.training.model_shard import ModelShard
        from repro.training.worker import Worker

        def model() -> torch.nn.Sequential:
            return models.build("mnist_mlp", dataset.input_shape, dataset.classes, SEED)

        fabric = MpiFabric()
        batches = Batches(dataset.train, BATCH, SEED)
        self.clock = CpuClock(fabric)
        self.worker = Worker(
            workers=1,
            fabric=fabric,
            clock=self.clock,
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

        before, start = self.clock.cpu_s, self.done
        self.done += iterations
        train(self.worker, self.strategy, TrainingPlan(self.done, NEVER, NEVER), self.log, start)
        return self.clock.cpu_s - before


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
        name: {"median": statistics.median(all_), "min": min(all_), "all": all_} for name, all_ in taken.items()
    }
    found = ratio(taken["harness_s"], taken["bare_s"])
    of_best = medians["harness_s"]["min"] / medians["bare_s"]["min"]
    result = {
        "dataset": dataset.name,
        "batch": BATCH,
        "iterations_a_turn": iterations,
        **medians,
        "ratio": found,
        "of_best": of_best,
        "against_goals": [OVERHEAD.of(of_best, (found["min"], found["max"]))],
        "same_weights": same,
    }
    print("@" + json.dumps({"loop": result}), flush=True)


if __name__ == "__main__":
    from repro.rank.main import guarded

    guarded(lambda: main(int(sys.argv[1]), int(sys.argv[2])))
