"""Measures what a strategy's arithmetic costs on this device, by the kinds of work that it charges in virtual time.

The ranks run in this process, one after another on one device, with real gradients of a model. Every body of
`with fabric.compute(costs.seconds(kind, nbytes))` is timed and recorded under its kind.
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
from repro.probes.shared.steps import run_iterations
from repro.probes.shared.stopwatch import synchronize_device
from repro.strategies.base import RunFacts, set_up
from repro.training import optimizers
from repro.training.buckets import block_sizes
from repro.training.clock import COMPRESSION, Clock
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker

UNCOMPRESSED = f"/{NoCodec.name}"


class Labelled(float):
    """A duration of 0 that carries its `kind` of work and the `nbytes` of float32 data that it is about."""

    kind: str
    nbytes: float

    def __new__(cls, kind: str, nbytes: float) -> Labelled:
        made = super().__new__(cls, 0.0)
        made.kind, made.nbytes = kind, nbytes
        return made


class LabelledCosts(Costs):
    """Costs whose durations are `Labelled`."""

    def modelled(self, kind: str, nbytes: float = 0) -> float:
        return Labelled(kind, nbytes)


@dataclass
class Book:
    """One step of all ranks: seconds, bytes and calls by kind; uncharged_s: the rest of phase "compress"."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    nbytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    uncharged_s: float = 0.0

    @property
    def charged_s(self) -> float:
        return sum(self.seconds.values())


class TimedFabric(VirtualFabric):
    """A virtual fabric that times charged work; a process has one run at a time, whose ranks share the book."""

    book = Book()
    switches = 0  # from one rank or task to another
    synchronize: Callable[[], None] = staticmethod(lambda: None)

    @contextmanager
    def compute(self, seconds: float | None = None, resource: str | None = "device") -> Iterator[None]:
        with super().compute(None, resource):
            start = self.stopwatch()
            yield
            elapsed = self.stopwatch() - start
        if isinstance(seconds, Labelled) and not seconds.kind.endswith(UNCOMPRESSED):
            self.book.seconds[seconds.kind] += elapsed
            self.book.nbytes[seconds.kind] += seconds.nbytes
            self.book.calls[seconds.kind] += 1

    def stopwatch(self) -> float:
        type(self).synchronize()
        return time.perf_counter()


class TimedClock(Clock):
    """A clock that records the uncharged time of phase "compress", if no other task ran meanwhile."""

    def __init__(self, fabric: TimedFabric):
        super().__init__(fabric)
        self.timed = fabric
        self.starts: dict[str, tuple[float, float, int]] = {}  # line -> (time, charged_s, switches)

    def _begin_phase(self, name: str) -> Any:
        if name == COMPRESSION:
            charged_s = self.timed.book.charged_s
            self.starts[self.timed.current_task()] = self.timed.stopwatch(), charged_s, TimedFabric.switches
        return super()._begin_phase(name)

    def _end_phase(self, name: str, line: str, start: Any) -> None:
        super()._end_phase(name, line, start)
        if name == COMPRESSION:
            started, charged_s, switches = self.starts.pop(line)
            book = self.timed.book
            if switches == TimedFabric.switches:
                book.uncharged_s += max(0.0, self.timed.stopwatch() - started - (book.charged_s - charged_s))


@dataclass(frozen=True)
class Price:
    """A kind of work: seconds a byte; seconds and calls in one worker's step. Medians over steps."""

    kind: str
    s_per_byte: float
    step_s: float
    calls: float


@dataclass(frozen=True)
class Prices:
    """uncharged_s: seconds of a rank's step in phase "compress" outside `fabric.compute`; parameters: the model's."""

    prices: list[Price]
    uncharged_s: float
    parameters: int


def measure_prices(
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
    """Measure a strategy with these options on `workers` ranks, with minibatches of `batch` samples each.

    InputError for a strategy that does not run on the virtual fabric, or a model that does not suit the options.
    """
    kind = strategies.load_strategy(name)
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
            loss_function=optimizers.loss_of(dataset.task), iterations=warmup + steps,
        )  # fmt: skip
        strategy = kind(options)
        set_up(strategy, worker)
        worker.clock.start()
        for step in range(warmup + steps):
            run_iterations(strategy, step, step + 1)
            fabric.exchange(None)
            if fabric.rank == 0:
                books.append(TimedFabric.book)
                TimedFabric.book = Book()
            fabric.exchange(None)
        strategy.drain()
        strategy.settle()
        strategy.close()
        return shard.size

    TimedFabric.book, TimedFabric.synchronize = Book(), staticmethod(partial(synchronize_device, device))
    ranks = kind.ranks(options, workers)
    before = settrace(_count_switch)
    try:
        sizes = run_virtually(ranks, rank, Network(0.0, 0.0), LabelledCosts(True), kind=TimedFabric)
    finally:
        settrace(before)
    return sum_books(books[warmup:], workers, max(sizes))


def _count_switch(event: str, involved: Any) -> None:
    TimedFabric.switches += 1


def sum_books(books: list[Book], workers: int, parameters: int) -> Prices:
    """Medians over the steps in which each kind was charged."""
    prices = []
    for kind in dict.fromkeys(kind for book in books for kind, nbytes in book.nbytes.items() if nbytes):
        per_byte = [book.seconds[kind] / book.nbytes[kind] for book in books if book.nbytes.get(kind)]
        step_s = statistics.median(book.seconds[kind] for book in books) / workers
        calls = statistics.median(book.calls[kind] for book in books) / workers
        prices.append(Price(kind, statistics.median(per_byte), step_s, calls))
    return Prices(prices, statistics.median(book.uncharged_s for book in books) / workers, parameters)
