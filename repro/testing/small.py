"""Small runs of any strategy on a seeded data set and a tiny model, on the virtual fabric in this process.

A strategy that needs the library of a real fabric (DDP, Horovod) runs on real ranks instead (`repro.testing.real`).
"""

from __future__ import annotations

import functools
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from repro import strategies
from repro.algorithms.imbalance.base import Imbalance
from repro.data.base import Split
from repro.data.minibatches import Batches
from repro.experiment.optimizer import Optimizer
from repro.experiment.schema import Numerics
from repro.fabric.base import Fabric
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.rank.checkpoints import Checkpoints
from repro.strategies.base import set_up
from repro.testing import real
from repro.testing.nccl import by_nccls_rules
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.evaluation.evaluate import weights_digest
from repro.training.model_shard import FP32, ModelShard
from repro.training.worker import Worker

INPUTS, CLASSES, SAMPLES = 6, 3, 240
NETWORK = virtual.Network(1e-4, 1e-9)
COSTS = Costs(True, {"reduce": 1e-10, "update": 1e-11}, {"sync": 0.0})


@functools.cache
def split(seed: int = 7) -> Split:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(SAMPLES, INPUTS, generator=generator)
    return Split(x, (x @ torch.randn(INPUTS, CLASSES, generator=generator)).argmax(1))


def model(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, second = nn.Linear(INPUTS, 5), nn.Linear(5, CLASSES)
    return nn.Sequential(OrderedDict(a=nn.Sequential(first, nn.Tanh()), b=nn.Sequential(second)))


class SameForAll(Batches):
    """Minibatches that are the same for all workers of an iteration: those of a single worker."""

    def __init__(self, split: Split, size: int, seed: int, per_epoch: int, workers: int):
        super().__init__(split, size, seed, per_epoch)
        self.workers = workers

    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        return super().__getitem__(minibatch_id // self.workers)


class NoBatches:
    """Minibatches for runs without arithmetic, which read no samples."""

    size = 1

    def work(self, minibatch_id: int) -> float:
        return 1.0


class FixedDelays(Imbalance):
    """The given delays, [step][worker] seconds, repeated for further steps."""

    name = "fixed"

    def __init__(self, rows: Sequence[Sequence[float]]):
        self.rows = rows

    @property
    def longest(self) -> float:
        return max(map(max, self.rows))

    def delays(self, iteration: int) -> list[float]:
        return list(self.rows[iteration % len(self.rows)])


SGD = Optimizer(lr=0.1)


@dataclass(frozen=True)
class Setup:
    """The parameters of a small run.

    batch: samples of each worker's minibatch. settle_every: settle and take the evaluation weights every n-th step, as
    an evaluation does. stop_and_resume_at: after so many steps, continue with new strategies and model shards that load
    a checkpoint of the old ones. drain: whether to drain at the end. blocks: rank -> seconds of each block's passes.
    arithmetic: False for timing on meta tensors, without digests. delays: [step][worker] seconds of injected imbalance.
    same_data: all workers of an iteration use the same minibatch, that of a single worker.
    """

    name: str
    options: dict[str, Any]
    workers: int = 2
    steps: int = 12
    batch: int = 4
    optimizer: Optimizer = SGD
    settle_every: int = 0
    stop_and_resume_at: int = 0
    drain: bool = True
    iterations_per_epoch: int = 10
    build_model: Callable[[], nn.Sequential] = model
    blocks: Callable[[int], BlockSeconds] | None = lambda rank: BlockSeconds([1e-3, 1e-3], [2e-3, 2e-3])
    arithmetic: bool = True
    delays: Sequence[Sequence[float]] = ()
    numerics: Numerics = FP32
    same_data: bool = False


@dataclass
class SmallRun:
    """The results of a run, in lists with an entry for each rank."""

    digests: list[str]  # of the final weights
    weights: list[torch.Tensor]  # flat
    losses: list[list[float]]
    bytes_sent: list[int]
    seconds: float  # of the slowest rank
    states: list[dict[str, Any]] = field(default_factory=list)
    staleness: list[list[int]] = field(default_factory=list)  # of the updates that the steps reported
    evaluated: list[dict[str, torch.Tensor]] = field(default_factory=list)  # evaluation weights
    counters: list[dict[str, float]] = field(default_factory=list)
    sent_at: list[list[int]] = field(default_factory=list)  # the iterations, from 1, in which the rank sent something
    first_updates: list[dict[str, list[float]]] = field(default_factory=list)  # `FirstUpdates.ratios`
    updates: list[float] = field(default_factory=list)  # of the weights, over those that an iteration has
    steps: int = 0
    exact: bool = True  # repetitions have the same bits

    @property
    def held(self) -> list[set[str]]:
        """The names of each rank's evaluation weights."""
        return [set(weights) for weights in self.evaluated]

    @property
    def whole(self) -> dict[str, torch.Tensor]:
        """The evaluated model by name; of weights that several ranks hold, the first rank's."""
        return {name: tensor for weights in reversed(self.evaluated) for name, tensor in weights.items()}

    @property
    def exchanges(self) -> list[int]:
        """The iterations, from 1, in which any rank sent something."""
        return sorted({iteration for of_rank in self.sent_at for iteration in of_rank})


def run(
    name: str, options: dict[str, Any] | None = None, *, fabric: str | None = None, costs: Costs = COSTS, **how: Any
) -> SmallRun:
    """Run a strategy as `Setup(**how)` says.

    fabric: "mpi" or "torch" for real ranks, "nccl" for virtual ranks with NCCL's rules (`repro.testing.nccl`); by
    default virtual ranks, or real ones if the strategy needs their library.
    """
    strategy_class = strategies.load_strategy(name)
    options = {**strategy_class.conformance, **(options or {})}
    parsed, setup = strategy_class.parse(options), Setup(name, options, **how)
    ranks, exact = strategy_class.ranks(parsed, setup.workers), True
    home = fabric or real.needed_library(name)
    if home not in (None, "nccl"):
        results, exact = (
            real.run_on_ranks(home, ranks, replace(setup, blocks=None)),
            strategy_class(parsed).deterministic,
        )
    else:
        start: Callable[..., list[Any]] = by_nccls_rules if home else virtual.run
        results = start(ranks, lambda fabric: one_rank(fabric, setup), NETWORK, costs)
    digests, weights, losses, sent, seconds, *others = map(list, zip(*results))
    states, staleness, evaluated, counters, sent_at, ratios, updates = others
    rest = states, staleness, evaluated, counters, sent_at, ratios, updates
    return SmallRun(digests, weights, losses, sent, max(seconds), *rest, setup.steps, exact)


def assert_same(first: SmallRun, second: SmallRun, remedy: str = "") -> None:
    """Assert equal weights: bit for bit, or close if a library sums in varying order.

    remedy: what to do if they differ, the end of the message, which names the entries that differ.
    """
    differences = describe_differences(first.evaluated or first.weights, second.evaluated or second.weights)
    if first.exact:
        equal = first.digests == second.digests
    else:
        equal = all(torch.allclose(*pair) for pair in zip(first.weights, second.weights, strict=True))
    assert equal, f"by rank, {'; '.join(differences) or 'digests differ'}{remedy and f': {remedy}'}"


def describe_differences(first: Any, other: Any, rounding: bool = False) -> list[str]:
    """Where two nested states of dictionaries, lists and tensors differ, and by how much, a text each.

    rounding: tensors that differ by float32's rounding are equal.
    """
    if isinstance(first, dict) and isinstance(other, dict):
        missing = [f"[{key!r}] is in one of them" for key in first.keys() ^ other.keys()]
        return missing + [
            f"[{key!r}]{text}"
            for key in first
            if key in other
            for text in describe_differences(first[key], other[key], rounding)
        ]
    if isinstance(first, list | tuple) and isinstance(other, list | tuple) and len(first) == len(other):
        pairs = enumerate(zip(first, other))
        return [f"[{at}]{text}" for at, (a, b) in pairs for text in describe_differences(a, b, rounding)]
    if not (isinstance(first, torch.Tensor) and isinstance(other, torch.Tensor)):
        return [] if first == other else [f" is {first!r:.40} and {other!r:.40}"]
    if first.shape != other.shape:
        return [f" has the shapes {tuple(first.shape)} and {tuple(other.shape)}"]
    if torch.equal(first, other) or (rounding and torch.allclose(first, other, rtol=1e-5, atol=1e-6)):
        return []
    apart = (first.double() - other.double()).abs()
    return [f" differs in {int((apart > 0).sum())} of {apart.numel()} elements, by up to {apart.max():.2g}"]


def one_rank(fabric: Fabric, setup: Setup) -> tuple:
    """One rank's part of `run`; returns its entries of `SmallRun`'s lists."""
    workers, per_epoch = setup.workers, setup.iterations_per_epoch
    strategy_class = strategies.load_strategy(setup.name)
    batches = Batches(split(), setup.batch, 3, per_epoch * workers)
    if setup.same_data:
        batches = SameForAll(split(), setup.batch, 3, per_epoch, workers)
    device = torch.device("cpu" if setup.arithmetic else "meta")

    def build() -> tuple[Worker, Any]:
        worker = Worker(
            workers=workers,
            fabric=fabric,
            clock=Clock(fabric),
            model_shard=ModelShard(setup.build_model(), setup.optimizer, device, per_epoch, setup.numerics),
            batches=batches,
            iterations_per_epoch=per_epoch,
            seed=0,
            blocks=setup.blocks(fabric.rank) if setup.blocks else None,
            arithmetic=setup.arithmetic,
            imbalance=FixedDelays(setup.delays) if setup.delays else None,
            iterations=setup.steps,
        )
        strategy = strategy_class(strategy_class.parse(setup.options))
        set_up(strategy, worker)
        return worker, strategy

    worker, strategy = build()
    losses, staleness, sent_at = [], [], []
    worker.clock.start()
    for step in range(1, setup.steps + 1):
        sent_before = fabric.bytes_sent
        for _ in range(strategy.steps((step - 1) * workers), strategy.steps(step * workers)):
            report = strategy.step()
            if report.loss is not None:
                losses.append(report.loss.item())
            staleness += report.staleness
        if fabric.bytes_sent > sent_before:
            sent_at.append(step)
        if setup.settle_every and step % setup.settle_every == 0:
            strategy.settle()
            strategy.eval_weights()
        if step == setup.stop_and_resume_at:
            strategy.settle()
            with tempfile.TemporaryDirectory() as folder:
                checkpoints, strategy_state = Checkpoints(Path(folder), fabric.rank), strategy.state_dict()
                checkpoints.save(step, {"part": worker.model_shard.state_dict(), "strategy": strategy_state})
                state = checkpoints.load(step)
            strategy.close()
            worker, strategy = build()
            worker.clock.start()
            worker.model_shard.load_state_dict(state["part"])
            strategy.load_state_dict(state["strategy"])
    if setup.drain:
        strategy.drain()
    seconds = worker.clock.train_s()
    strategy.settle()
    counters = {name: float(total) for name, total in strategy.counters().items()}
    assert all(total >= 0 for total in counters.values())  # also without arithmetic
    state = strategy.state_dict()
    strategy.close()
    weights = strategy.eval_weights() if setup.arithmetic else {}  # a run without arithmetic never evaluates
    mine = (
        weights_digest(weights) if setup.arithmetic else "",
        worker.model_shard.weights.clone(),
        losses,
        fabric.bytes_sent,
    )
    ratios = worker.first_updates.ratios() if setup.arithmetic else {}
    updates = float(worker.model_shard.updates / worker.model_shard.updates_per_iteration)
    return *mine, seconds, state, staleness, weights, counters, sent_at, ratios, updates


def initial_weights() -> torch.Tensor:
    """The initial weights (n,) of every run."""
    return ModelShard(model(), SGD, torch.device("cpu")).weights.clone()


def sgd_step(weights: torch.Tensor, total: torch.Tensor, workers: int) -> torch.Tensor:
    """One SGD update with total / workers, in the operations and order of `torch.optim.SGD`."""
    return weights.add(total.div(workers), alpha=-SGD.lr)


def plain_sgd(iterations: int = 12) -> torch.Tensor:
    """The weights (n,) of one worker after so many iterations."""
    weights = initial_weights()
    for iteration in range(iterations):
        weights = sgd_step(weights, serial_gradient(weights, iteration, 0, 1), 1)
    return weights


def plain_model() -> dict[str, torch.Tensor]:
    """The model of one worker by name, trained by plain SGD."""
    part = ModelShard(model(), SGD, torch.device("cpu"))
    part.weights.copy_(plain_sgd())
    return part.snapshot()


def serial_gradient(
    weights: torch.Tensor,
    iteration: int,
    worker: int,
    workers: int,
    batch: int = 4,
    build_model: Callable[[], nn.Sequential] = model,
) -> torch.Tensor:
    """The gradient (n,) of `worker` in an iteration (from 0) at the given weights, by plain PyTorch."""
    part = ModelShard(build_model(), SGD, torch.device("cpu"))
    part.weights.copy_(weights)
    x, y = Batches(split(), batch, 3, 10 * workers)[iteration * workers + worker]
    nn.functional.cross_entropy(part.model(x), y).backward()
    return torch.cat([p.grad.view(-1) for p in part.parameters if p.grad is not None])
