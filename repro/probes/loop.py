"""Program `loop`: the harness's overhead, the training of one rank through it against a bare PyTorch loop.

Both train the same model on the same minibatches with the same optimizer and `numerics`; the bare loop applies
`numerics` as a user would by hand (autocast around the model, channels-last weights, torch.compile of the whole model).
They take turns of a few hundred milliseconds in one process, so that other load slows both. On a CPU their CPU time is
compared, which other load disturbs less; on a GPU the seconds between two synchronisations.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import torch

from repro import data, models, probes, strategies
from repro.core.errors import InputError
from repro.core.fields import Count, Model
from repro.core.paths import EVENTS_FILE
from repro.data.base import Dataset
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes import ResultPart
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.options import needs_one, needs_real_time
from repro.rank.checkpointer import Checkpointer
from repro.rank.checkpoints import Checkpoints
from repro.rank.evaluator import Evaluator
from repro.rank.factory import build_worker
from repro.rank.loop import train_to_end
from repro.rank.step_log import StepLog
from repro.records.events import EventLog
from repro.strategies.base import set_up
from repro.training import optimizers
from repro.training.clock import Clock
from repro.training.stops import TrainingPlan

NUMERICS = True
OVERHEAD = 1.03  # the goal: a step through the harness over a step of the bare loop
NEVER = 10**9  # iterations


class Options(Model):
    iterations: Count  # of a turn
    turns: Count  # of each side, after an uncounted one


class LoopTurn(ResultPart):
    turn: int
    bare_s: float
    harness_s: float


class Result(ResultPart):
    """Seconds per step: CPU time or wall time (`timed`), medians over the turns.

    of_best: ratio of the fastest turns, which were disturbed least; the goal applies to it. same_weights: bit for bit;
    layouts and compilation may round differently.
    """

    timed: str
    iterations_a_turn: int
    rows: list[LoopTurn]
    bare_s: float
    harness_s: float
    of_best: float
    goal: float
    met: bool
    same_weights: bool


def check(config: RunConfig) -> None:
    needs_one(config, "compares one rank with a bare loop")
    needs_real_time(config)
    check_bare(config)


def check_bare(config: RunConfig) -> None:
    """InputError for what `Bare` does not implement."""
    optimizer, where = config.optimizer, f"program {config.program}"
    if (optimizer.name, optimizer.schedule, optimizer.warmup, optimizer.clip_norm) != ("sgd", "constant", [], None):
        raise InputError(f"{where}: its bare loop has plain SGD at one rate: leave the other entries of optimizer")
    if config.accumulate > 1:
        raise InputError(f"accumulate={config.accumulate}: {where} takes minibatches whole; must be 1")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    dataset, probe = data.dataset_for(config), config.probe
    probes.announce_iterations(probe.turns, fabric.rank)
    with tempfile.TemporaryDirectory() as scratch:
        harness = Harness(fabric, config, dataset, Path(scratch))
        shard = harness.worker.model_shard
        if shard.stateful:
            raise InputError(
                f"program loop: model {config.model.name} carries its state from one minibatch to the next"
            )
        bare = Bare(config, dataset, shard.device)
        sides: dict[str, Bare | Harness] = {"bare_s": bare, "harness_s": harness}
        for side in sides.values():
            side.turn(probe.iterations)  # uncounted: the first calls allocate and compile
        calls = {name: partial(side.turn, probe.iterations) for name, side in sides.items()}
        taken = run_in_turns(calls, probe.turns, 0, True, lambda turn: probes.report_progress(turn + 1))
        steps = {name: [seconds / probe.iterations for seconds in turns] for name, turns in taken.items()}
        ours, theirs = harness.strategy.eval_weights(), bare.model.state_dict()
        harness.strategy.close()
    ratio = min(steps["harness_s"]) / min(steps["bare_s"])
    medians = {name: statistics.median(each) for name, each in steps.items()}
    result = {
        "timed": "CPU time" if shard.device.type == "cpu" else "wall time",
        "iterations_a_turn": probe.iterations,
        "rows": [dict(zip(("turn", *steps), row)) for row in zip(range(probe.turns), *steps.values())],
        **medians,
        "of_best": ratio,
        "goal": OVERHEAD,
        "met": ratio <= OVERHEAD,
        "same_weights": all(torch.equal(ours[name], theirs[name]) for name in ours),
    }
    line = f"{ratio:.3f} of a bare loop's time a step (goal {OVERHEAD}), {result['timed']}"
    metrics = {"of_best": ratio, "harness_s": medians["harness_s"], "bare_s": medians["bare_s"]}
    return probes.Finding(result, metrics, line, config.model.name, harness.worker.parameters, dataset)


class Bare:
    """The loop that a user would write without a harness."""

    def __init__(self, config: RunConfig, dataset: Dataset, device: torch.device):
        numerics, optimizer = config.numerics, config.optimizer
        self.model: torch.nn.Module = models.model_for(config, dataset, "cpu").to(device)
        self.channels_last = numerics.channels_last and dataset.kind == "images"
        if self.channels_last:
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.call = torch.compile(self.model, dynamic=False) if numerics.compile else self.model
        trainable = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        momentum, weight_decay = optimizer.momentum, optimizer.weight_decay
        self.optimizer = torch.optim.SGD(trainable, optimizer.lr, momentum, weight_decay=weight_decay)
        self.batches = dataset.train.minibatches(config.local_batch, 1, config.seed, device)
        self.loss, self.device, self.half = optimizers.loss_of(dataset.task), device, numerics.precision == "bf16"
        self.done = 0

    def turn(self, iterations: int) -> float:
        """Seconds of the next `iterations` iterations."""
        model, optimizer, batches, loss_function = self.call, self.optimizer, self.batches, self.loss
        start = seconds_now(self.device)
        for step in range(self.done, self.done + iterations):
            x, y = batches[step]
            if self.channels_last:
                x = x.contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad()
            with self._autocast():
                output = model(x)
            loss_function(output.float(), y).backward()
            optimizer.step()
        elapsed = seconds_now(self.device) - start
        self.done += iterations
        return elapsed

    def _autocast(self) -> AbstractContextManager:
        return torch.autocast(self.device.type, torch.bfloat16) if self.half else nullcontext()


def seconds_now(device: torch.device) -> float:
    """CPU seconds of this process, or wall-clock seconds after the GPU has finished its work."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


class Stopwatch(Clock):
    """A training clock that adds up `elapsed`, seconds by `seconds_now` while it runs."""

    elapsed = 0.0
    device = torch.device("cpu")

    def start(self) -> None:
        super().start()
        self.since = seconds_now(self.device)

    def _stop(self) -> None:
        self.elapsed += seconds_now(self.device) - self.since
        super()._stop()


class Harness:
    """The same through worker, strategy, training loop and run log; the training clock excludes evaluation."""

    def __init__(self, fabric: Fabric, config: RunConfig, dataset: Dataset, folder: Path):
        self.worker = build_worker(fabric, config, dataset, Stopwatch)
        clock = self.worker.clock
        assert isinstance(clock, Stopwatch)
        self.clock, clock.device = clock, self.worker.model_shard.device
        self.strategy = strategies.load_strategy(config.strategy.name)(config.strategy.options)
        set_up(self.strategy, self.worker)
        spare, checkpoints = models.model_for(config, dataset, "cpu"), Checkpoints(folder, fabric.rank)
        events = EventLog(folder / EVENTS_FILE)
        log = StepLog(self.worker, self.strategy, events, 0)
        evaluator = Evaluator(self.worker, self.strategy, spare, dataset, events)
        self.recorders = log, evaluator, Checkpointer(log, checkpoints)
        self.done = 0

    def turn(self, iterations: int) -> float:
        before, start = self.clock.elapsed, self.done
        self.done += iterations
        train_to_end(TrainingPlan(self.done, NEVER, NEVER), *self.recorders, start)
        return self.clock.elapsed - before
