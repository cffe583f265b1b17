"""Program `loop`: the harness's overhead, one rank's training through it against a bare PyTorch loop of the same.

Both train the same model on the same minibatches, with the same optimizer and `numerics` as somebody would write them
by hand (autocast around the model, its weights in the layout too, torch.compile of the whole), in turns of a few
hundred milliseconds in one process, so that a busy machine slows both. On a CPU what is compared is CPU time, which it
slows less; on a GPU seconds between two synchronisations.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from repro import data, models, probes, strategies
from repro.core.errors import InputError
from repro.core.fields import Count, Model
from repro.data.base import Dataset
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared.options import needs_one, needs_real_time
from repro.rank.checkpointer import Checkpointer
from repro.rank.checkpoints import Checkpoints
from repro.rank.evaluator import Evaluator
from repro.rank.factory import build_worker
from repro.rank.loop import train
from repro.rank.step_log import StepLog
from repro.records.events import EventLog
from repro.training import losses
from repro.training.clock import Clock
from repro.training.stops import TrainingPlan

NUMERICS = True
OVERHEAD = 1.03  # the goal: of a step through the harness over a bare loop's
NEVER = 10**9


class Options(Model):
    """Iterations of a turn, and turns of each side; one more of each before them does not count."""

    iterations: Count
    turns: Count


def check(config: RunConfig) -> None:
    """InputError for what a bare loop does not do."""
    needs_one(config, "compares one rank with a bare loop")
    needs_real_time(config)
    given = config.optimizer
    if (given.name, given.schedule, given.warmup, given.clip_norm) != ("sgd", "constant", [], None):
        raise InputError("program loop: its bare loop has plain SGD at one rate: leave the other entries of optimizer")
    if config.accumulate > 1:
        raise InputError(f"accumulate={config.accumulate}: program loop takes minibatches whole; must be 1")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """All of it."""
    dataset, probe = data.of(config), config.probe
    probes.start(fabric, probe.turns)
    found = compare(fabric, config, dataset, probe.iterations, probe.turns, lambda n: probes.progress(fabric, n))
    parameters = found.pop("parameters")
    line = f"{found['of_best']:.3f} of a bare loop's time a step (goal {OVERHEAD}), {found['timed']}"
    metrics = {"of_best": found["of_best"], "harness_s": found["harness_s"], "bare_s": found["bare_s"]}
    return probes.Finding(found, metrics, line, config.model.name, parameters, dataset)


def compare(
    fabric: Fabric,
    config: RunConfig,
    dataset: Dataset,
    iterations: int,
    turns: int,
    done: Callable[[int], None] = lambda turn: None,
) -> dict[str, Any]:
    """The result, and the model's number of parameters."""
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(fabric, config, dataset, Path(folder))
        shard = harness.worker.model_shard
        if shard.stateful:
            raise InputError(
                f"program loop: model {config.model.name} carries its state from one minibatch to the next"
            )
        bare = Bare(config, dataset, shard.device)
        for side in (bare, harness):
            side.turn(iterations)  # not counted: first calls allocate, and compile
        taken: dict[str, list[float]] = {"bare_s": [], "harness_s": []}
        sides: dict[str, Bare | Harness] = {"bare_s": bare, "harness_s": harness}
        for turn in range(turns):
            for name in sorted(sides, reverse=bool(turn % 2)):
                taken[name].append(sides[name].turn(iterations) / iterations)
            done(turn + 1)
        ours = harness.strategy.eval_weights()
        theirs = bare.model.state_dict()
        harness.strategy.close()
    of_best = min(taken["harness_s"]) / min(taken["bare_s"])
    return {
        "timed": "CPU time" if shard.device.type == "cpu" else "wall time",
        "iterations_a_turn": iterations,
        "rows": [dict(zip(("turn", *taken), row)) for row in zip(range(turns), *taken.values())],
        **{name: statistics.median(each) for name, each in taken.items()},
        "of_best": of_best,
        "goal": OVERHEAD,
        "met": of_best <= OVERHEAD,
        "same_weights": all(torch.equal(ours[name], theirs[name]) for name in ours),
        "parameters": harness.worker.parameters,
    }


class Bare:
    """What somebody would write without a harness."""

    def __init__(self, config: RunConfig, dataset: Dataset, device: torch.device):
        numerics, optimizer = config.numerics, config.optimizer
        self.model: torch.nn.Module = models.of(config, dataset, "cpu").to(device)
        self.last = numerics.channels_last and dataset.kind == "images"
        if self.last:
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.call = torch.compile(self.model, dynamic=False) if numerics.compile else self.model
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        momentum, weight_decay = optimizer.momentum, optimizer.weight_decay
        self.optimizer = torch.optim.SGD(trained, optimizer.lr, momentum, weight_decay=weight_decay)
        self.batches = dataset.train.minibatches(config.local_batch, 1, config.seed, device)
        self.loss, self.device, self.half = losses.of(dataset.task), device, numerics.precision == "bf16"
        self.done = 0

    def turn(self, iterations: int) -> float:
        """Seconds of that many iterations."""
        model, optimizer, batches, loss_function = self.call, self.optimizer, self.batches, self.loss
        began = now(self.device)
        for step in range(self.done, self.done + iterations):
            x, y = batches[step]
            if self.last:
                x = x.contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad()
            with self._autocast():
                output = model(x)
            loss_function(output.float(), y).backward()
            optimizer.step()
        took = now(self.device) - began
        self.done += iterations
        return took

    def _autocast(self) -> AbstractContextManager:
        return torch.autocast(self.device.type, torch.bfloat16) if self.half else nullcontext()


def now(device: torch.device) -> float:
    """Seconds: of this process on a core, or of a wall clock at which the GPU has done what it was asked for."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch(Clock):
    """took: seconds, as `now` has them, while the clock ran."""

    took = 0.0
    device = torch.device("cpu")

    def start(self) -> None:
        super().start()
        self.since = now(self.device)

    def _stop(self) -> None:
        self.took += now(self.device) - self.since
        super()._stop()


class Harness:
    """The same through Worker, strategy, training loop and run log; evaluation falls outside the training clock."""

    def __init__(self, fabric: Fabric, config: RunConfig, dataset: Dataset, folder: Path):
        self.worker = build_worker(fabric, config, dataset, Stopwatch)
        clock = self.worker.clock
        assert isinstance(clock, Stopwatch)
        self.clock, clock.device = clock, self.worker.model_shard.device
        self.strategy = strategies.load(config.strategy.name)(config.strategy.options)
        self.strategy.setup(self.worker)
        spare, checkpoints = models.of(config, dataset, "cpu"), Checkpoints(folder, fabric.rank)
        events = EventLog(folder / "events.jsonl")
        log = StepLog(self.worker, self.strategy, events, 0)
        evaluator = Evaluator(self.worker, self.strategy, spare, dataset, events)
        self.recorders = log, evaluator, Checkpointer(log, checkpoints)
        self.done = 0

    def turn(self, iterations: int) -> float:
        before, start = self.clock.took, self.done
        self.done += iterations
        train(TrainingPlan(self.done, NEVER, NEVER), *self.recorders, start)
        return self.clock.took - before
