"""What a strategy's own arithmetic costs on this device, by the kinds of work that it charges in virtual time.

Its ranks run in this process, one after another on one device, with real gradients of a model; every body of
`with fabric.compute(costs.seconds(kind, nbytes))` is timed and booked to its kind.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from greenlet import settrace
from torch import nn

from repro import strategies
from repro.core.errors import InputError
from repro.data.base import Dataset
from repro.experiment.optimizer import Optimizer
from repro.fabric.codecs import NoCodec
from repro.fabric.costs import Costs
from repro.fabric.virtual.fabric import Network, VirtualFabric
from repro.fabric.virtual.fabric import run as run_virtually
from repro.probes.shared.stopwatch import synchronize
from repro.strategies.base import RunFacts
from repro.training import losses
from repro.training.buckets import block_sizes
from repro.training.clock import COMPRESSION, Clock
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker

UNCOMPRESSED = f"/{NoCodec.name}"


class Priced(float):
    """A duration that says of what it is: `kind` of work on `nbytes` of float32 data."""

    kind: str
    nbytes: float

    def __new__(cls, kind: str, nbytes: float) -> Priced:
        made = super().__new__(cls, 0.0)
        made.kind, made.nbytes = kind, nbytes
        return made


class Kinds(Costs):
    """Costs without numbers: every duration says of what it is."""

    def modelled(self, kind: str, nbytes: float = 0) -> float:
        return Priced(kind, nbytes)


@dataclass
class Book:
    """What ranks did since the last `close`: seconds and bytes by kind, and the rest of phase "compress"."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    nbytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    uncharged_s: float = 0.0

    @property
    def charged_s(self) -> float:
        return sum(self.seconds.values())


class TimedFabric(VirtualFabric):
    """A virtual fabric that times what is charged."""

    book = Book()  # of the run; one at a time in a process
    switches = 0  # from one rank or task to another, so far
    synchronize: Callable[[], None] = staticmethod(lambda: None)

    @contextmanager
    def compute(self, seconds: float | None = None, resource: str | None = "device") -> Iterator[None]:
        with super().compute(None, resource):
            began = self.stopwatch()
            yield
            took = self.stopwatch() - began
        if isinstance(seconds, Priced) and not seconds.kind.endswith(UNCOMPRESSED):
            self.book.seconds[seconds.kind] += took
            self.book.nbytes[seconds.kind] += seconds.nbytes
            self.book.calls[seconds.kind] += 1

    def stopwatch(self) -> float:
        type(self).synchronize()
        return time.perf_counter()


class TimedClock(Clock):
    """A clock that books what of phase "compress" is charged to nothing, where no other task came between."""

    def __init__(self, fabric: TimedFabric):
        super().__init__(fabric)
        self.timed = fabric
        self.began: dict[str, tuple[float, float, int]] = {}

    def _begin_phase(self, name: str) -> Any:
        if name == COMPRESSION:
            charged_s = self.timed.book.charged_s
            self.began[self.timed.current_task()] = self.timed.stopwatch(), charged_s, TimedFabric.switches
        return super()._begin_phase(name)

    def _end_phase(self, name: str, line: str, start: Any) -> None:
        super()._end_phase(name, line, start)
        if name == COMPRESSION:
            began, charged, switches = self.began.pop(line)
            book = self.timed.book
            if switches == TimedFabric.switches:  # else others have worked meanwhile
                book.uncharged_s += max(0.0, self.timed.stopwatch() - began - (book.charged_s - charged))


@dataclass(frozen=True)
class Price:
    """A kind of work: seconds a byte; seconds and calls of one worker's step. Medians over steps."""

    kind: str
    s_per_byte: float
    step_s: float
    calls: float


@dataclass(frozen=True)
class Prices:
    """uncharged_s: of a rank's step, in phase "compress" outside of `fabric.compute`; parameters: of the model."""

    prices: list[Price]
    uncharged_s: float
    parameters: int


def measure(
    name: str,
    options: Any,
    build: Callable[[], nn.Sequential],
    dataset: Dataset,
    device: torch.device,
    workers: int = 2,
    batch: int = 4,
    steps: int = 20,
    warmup: int = 3,
) -> Prices:
    """The prices of a strategy with these options, on `workers` ranks with minibatches of `batch` samples each.

    InputError for a strategy that does not run on the virtual fabric, or options that the model does not suit.
    """
    kind = strategies.load(name)
    if lacking := kind.requires - VirtualFabric.capabilities:
        libraries = ", ".join(sorted(lacking))
        raise InputError(f"strategy {name}: a library does its arithmetic ({libraries}), which has no price")
    kind.check(options, RunFacts(workers, 1, device.type == "cuda"))
    kind.check_model(options, block_sizes(list(build().children())))
    per_epoch, optimizer = dataset.iterations(batch * workers), Optimizer(lr=1e-3)
    books: list[Book] = []

    def rank(fabric: TimedFabric) -> int:
        shard = ModelShard(build(), optimizer, device, per_epoch)
        batches = dataset.train.minibatches(batch, workers, 0, device)
        worker = Worker(
            workers, fabric, TimedClock(fabric), shard, batches, per_epoch, 0,
            loss_function=losses.of(dataset.task), iterations=warmup + steps,
        )  # fmt: skip
        strategy = kind(options)
        strategy.setup(worker)
        worker.clock.start()
        for step in range(warmup + steps):
            for _ in range(strategy.steps(step * workers), strategy.steps((step + 1) * workers)):
                strategy.step()
            fabric.exchange(None)
            if fabric.rank == 0:
                books.append(TimedFabric.book)
                TimedFabric.book = Book()
            fabric.exchange(None)
        strategy.drain()
        strategy.settle()
        strategy.close()
        return shard.size

    TimedFabric.book, TimedFabric.synchronize = Book(), staticmethod(partial(synchronize, device))
    ranks = kind.ranks(options, workers)
    before = settrace(_count)
    try:
        sizes = run_virtually(ranks, rank, Network(0.0, 0.0), Kinds(True), kind=TimedFabric)
    finally:
        settrace(before)
    return summed(books[warmup:], workers, max(sizes))


def _count(event: str, involved: Any) -> None:
    TimedFabric.switches += 1


def summed(books: list[Book], workers: int, parameters: int) -> Prices:
    """Medians over the steps in which a kind was charged."""
    found = []
    for kind in dict.fromkeys(kind for book in books for kind, nbytes in book.nbytes.items() if nbytes):
        having = [book for book in books if book.nbytes.get(kind)]
        each = statistics.median(book.seconds[kind] / book.nbytes[kind] for book in having)
        step_s, calls = (
            statistics.median(of[kind] for of in numbers) / workers
            for numbers in ([book.seconds for book in books], [book.calls for book in books])
        )
        found.append(Price(kind, each, step_s, calls))
    return Prices(found, statistics.median(book.uncharged_s for book in books) / workers, parameters)
