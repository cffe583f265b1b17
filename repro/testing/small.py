"""Small runs of any strategy: a seeded data set, a tiny model, on the virtual fabric in this process.

A strategy that needs the library of a real fabric (DDP, Horovod) runs there instead, on ranks that
`repro.testing.real` keeps.
"""

from __future__ import annotations

import functools
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from repro import strategies
from repro.algorithms.imbalance.base import Imbalance
from repro.data.base import Batches, Split
from repro.experiment.optimizer import Optimizer
from repro.experiment.schema import Numerics
from repro.fabric.base import Fabric
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.rank.checkpoints import Checkpoints
from repro.testing import real
from repro.testing.nccl import by_nccls_rules
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.evaluation.evaluate import digest
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
    """Minibatches of which all workers of an iteration have the same one: that of one worker alone."""

    def __init__(self, split: Split, size: int, seed: int, per_epoch: int, workers: int):
        super().__init__(split, size, seed, per_epoch)
        self.workers = workers

    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        return super().__getitem__(minibatch_id // self.workers)


class NoBatches:
    """Minibatches of nominal length for runs without arithmetic: nobody looks at a sample."""

    size = 1

    def work(self, minibatch_id: int) -> float:
        return 1.0


class Given(Imbalance):
    """Delays as they are given: [step][worker] seconds."""

    name = "given"

    def __init__(self, rows: Sequence[Sequence[float]]):
        self.rows = rows

    @property
    def longest(self) -> float:
        return max(map(max, self.rows))

    def delays(self, iteration: int) -> list[float]:
        return list(self.rows[iteration % len(self.rows)])


SGD = Optimizer(lr=0.1)


@dataclass
class Run:
    """What a run of a strategy left: per rank the final weights' digest and flat weights, losses, traffic, time."""

    digests: list[str]
    weights: list[torch.Tensor]
    losses: list[list[float]]
    bytes_sent: list[int]
    seconds: float
    states: list[dict[str, Any]] = field(default_factory=list)
    staleness: list[list[int]] = field(default_factory=list)  # of the updates that each rank's steps reported
    evaluated: list[dict[str, torch.Tensor]] = field(default_factory=list)  # each rank's evaluation weights
    counters: list[dict[str, float]] = field(default_factory=list)
    sent_at: list[list[int]] = field(default_factory=list)  # the iterations, from 1, in which each rank sent something
    steps: int = 0
    exact: bool = True  # the same run again has the same bits

    @property
    def held(self) -> list[set[str]]:
        """The names of each rank's evaluation weights."""
        return [set(weights) for weights in self.evaluated]

    @property
    def whole(self) -> dict[str, torch.Tensor]:
        """The model that is evaluated, by name: of what several ranks hold the first one's."""
        return {name: tensor for weights in reversed(self.evaluated) for name, tensor in weights.items()}

    @property
    def exchanges(self) -> list[int]:
        """The iterations, from 1, in which any rank sent something."""
        return sorted({iteration for of_rank in self.sent_at for iteration in of_rank})


def run(
    name: str,
    options: dict[str, Any] | None = None,
    workers: int = 2,
    steps: int = 12,
    batch: int = 4,
    optimizer: Optimizer = SGD,
    settle_every: int = 0,
    stop_and_resume_at: int = 0,
    drain: bool = True,
    iterations_per_epoch: int = 10,
    build_model: Callable[[], nn.Sequential] = model,
    blocks: Callable[[int], BlockSeconds] = lambda rank: BlockSeconds([1e-3, 1e-3], [2e-3, 2e-3]),
    costs: Costs = COSTS,
    arithmetic: bool = True,
    fabric: str | None = None,
    delays: Sequence[Sequence[float]] = (),
    numerics: Numerics = FP32,
    same_data: bool = False,
) -> Run:
    """`steps` iterations of a strategy; each worker's minibatch has `batch` samples.

    settle_every: settle and take evaluation weights every so many steps, as an evaluation would.
    blocks: rank -> its seconds of each block's passes.
    arithmetic: False for timing alone, on meta tensors; there are no digests then.
    fabric: "mpi" or "torch" for real ranks, "nccl" for virtual ones by NCCL's rules (`repro.testing.nccl`); by default
    virtual ones, or those whose library the strategy needs.
    stop_and_resume_at: after that many steps go on with fresh strategies and parts that load the old ones' checkpoint.
    delays: [step][worker] seconds of injected imbalance; in turn where there are more steps.
    same_data: all workers of an iteration compute on one minibatch, the one that one worker alone has.
    """
    how: dict[str, Any] = {
        "workers": workers,
        "steps": steps,
        "batch": batch,
        "optimizer": optimizer,
        "settle_every": settle_every,
        "stop_and_resume_at": stop_and_resume_at,
        "drain": drain,
        "iterations_per_epoch": iterations_per_epoch,
        "build_model": build_model,
        "arithmetic": arithmetic,
        "delays": delays,
        "numerics": numerics,
        "same_data": same_data,
    }
    strategy_class, options = strategies.load(name), options or {}
    if getattr(strategy_class.Options, "density", None):  # the default keeps nothing of so small a model
        options = {"density": 0.25} | options
    parsed = strategy_class.parse(options)
    ranks, exact = strategy_class.ranks(parsed, workers), True
    home = fabric or real.library(name)
    if home not in (None, "nccl"):
        how |= {"name": name, "options": options, "blocks": None}
        results, exact = real.run(home, ranks, how), strategy_class(parsed).deterministic
    else:
        start: Callable[..., list[Any]] = by_nccls_rules if home else virtual.run
        results = start(ranks, lambda fabric: one_rank(fabric, name, options, blocks=blocks, **how), NETWORK, costs)
    digests, weights, losses, sent, seconds, states, staleness, evaluated, counters, sent_at = map(list, zip(*results))
    longest = max(seconds)
    return Run(digests, weights, losses, sent, longest, states, staleness, evaluated, counters, sent_at, steps, exact)


def assert_same(first: Run, second: Run) -> None:
    """The same weights bit for bit, or close where a library sums in the order in which it comes to them."""
    if first.exact:
        assert first.digests == second.digests
    else:
        for mine, theirs in zip(first.weights, second.weights, strict=True):
            torch.testing.assert_close(mine, theirs)


def different(one: Any, other: Any) -> list[str]:
    """Where two states differ, which are of dictionaries, lists and tensors: the place of each."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in {**one, **other} if key in one and key in other]
        lone = [f"[{key!r}]" for key in one.keys() ^ other.keys()]
        return lone + [f"[{key!r}]{place}" for key in keys for place in different(one[key], other[key])]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [f"[{at}]{place}" for at, pair in enumerate(zip(one, other)) for place in different(*pair)]
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return [] if torch.equal(one, other) else [""]
    return [] if one == other else [""]


def one_rank(
    fabric: Fabric,
    name: str,
    options: dict[str, Any],
    workers: int,
    steps: int,
    batch: int,
    optimizer: Optimizer,
    settle_every: int,
    stop_and_resume_at: int,
    drain: bool,
    iterations_per_epoch: int,
    build_model: Callable[[], nn.Sequential],
    blocks: Callable[[int], BlockSeconds] | None,
    arithmetic: bool,
    delays: Sequence[Sequence[float]],
    numerics: Numerics = FP32,
    same_data: bool = False,
) -> tuple:
    """What one rank does in `run`, and what it finds."""
    strategy_class = strategies.load(name)
    batches = Batches(split(), batch, 3, iterations_per_epoch * workers)
    if same_data:
        batches = SameForAll(split(), batch, 3, iterations_per_epoch, workers)

    def build() -> tuple[Worker, Any]:
        worker = Worker(
            workers=workers,
            fabric=fabric,
            clock=Clock(fabric),
            model_shard=ModelShard(
                build_model(), optimizer, torch.device("cpu" if arithmetic else "meta"), iterations_per_epoch, numerics
            ),
            batches=batches,
            iterations_per_epoch=iterations_per_epoch,
            seed=0,
            blocks=blocks(fabric.rank) if blocks else None,
            arithmetic=arithmetic,
            imbalance=Given(delays) if delays else None,
            iterations=steps,
        )
        strategy = strategy_class(strategy_class.parse(options))
        strategy.setup(worker)
        return worker, strategy

    worker, strategy = build()
    losses, staleness, sent_at = [], [], []
    worker.clock.start()
    for step in range(1, steps + 1):
        sent_before = fabric.bytes_sent
        for _ in range(strategy.steps((step - 1) * workers), strategy.steps(step * workers)):
            report = strategy.step()
            if report.loss is not None:
                losses.append(report.loss.item())
            staleness += report.staleness
        if fabric.bytes_sent > sent_before:
            sent_at.append(step)
        if settle_every and step % settle_every == 0:
            strategy.settle()
            strategy.eval_weights()
        if step == stop_and_resume_at:
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
    if drain:
        strategy.drain()
    seconds = worker.clock.train_s()
    strategy.settle()
    counters = {name: float(total) for name, total in strategy.counters().items()}
    assert all(total >= 0 for total in counters.values())  # also without arithmetic
    state = strategy.state_dict()
    strategy.close()
    weights = strategy.eval_weights() if arithmetic else {}  # without, a run never evaluates
    mine = digest(weights) if arithmetic else "", worker.model_shard.weights.clone(), losses, fabric.bytes_sent
    return *mine, seconds, state, staleness, weights, counters, sent_at


def initial() -> torch.Tensor:
    """The weights (n,) that every run starts from."""
    return ModelShard(model(), SGD, torch.device("cpu")).weights.clone()


def sgd_step(weights: torch.Tensor, total: torch.Tensor, workers: int) -> torch.Tensor:
    """One SGD update with the mean of a sum, in the operations and order of `torch.optim.SGD`."""
    return weights.add(total.div(workers), alpha=-SGD.lr)


def plain_sgd(iterations: int = 12) -> torch.Tensor:
    """The weights (n,) that one worker has after so many iterations."""
    weights = initial()
    for iteration in range(iterations):
        weights = sgd_step(weights, serial_gradient(weights, iteration, 0, 1), 1)
    return weights


def serial_gradient(
    weights: torch.Tensor,
    iteration: int,
    worker: int,
    workers: int,
    batch: int = 4,
    build_model: Callable[[], nn.Sequential] = model,
) -> torch.Tensor:
    """The gradient (n,) that `worker` has in an iteration (from 0) at given weights, by plain PyTorch."""
    part = ModelShard(build_model(), SGD, torch.device("cpu"))
    part.weights.copy_(weights)
    x, y = Batches(split(), batch, 3, 10 * workers)[iteration * workers + worker]
    nn.functional.cross_entropy(part.model(x), y).backward()
    return torch.cat([p.grad.view(-1) for p in part.parameters if p.grad is not None])
