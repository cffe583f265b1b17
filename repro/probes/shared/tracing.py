"""A fabric that records who communicated and computed when, and otherwise is the one that it wraps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from repro.fabric.base import MAIN, Fabric, Work
from repro.fabric.collectives.algorithms import FabricWithAlgorithms
from repro.training.clock import Interval

COMMUNICATE = "communicate"


class TracedReceive(Work):
    """A receive that records its communication.

    In virtual time from when it was posted, or the message before it on that link was there, until it arrived, whatever
    the rank did meanwhile. In real time nobody tells when a message arrived: there it is the time that the rank spends
    waiting for it, in which MPI also copies long messages; what the transfer did before that is not seen.
    """

    def __init__(self, fabric: TracingFabric, work: Any, link: int):
        self.fabric, self.work, self.link = fabric, work, link
        self.posted, self.line = fabric.now(), fabric.current_task()
        self.virtual = fabric.name == "virtual"
        if self.virtual and not work.finished:  # a message that was there before it was asked for took no time
            work.then(self._arrived)

    def _arrived(self) -> None:
        fabric, arrival = self.fabric, self.work.fabric.scheduler.now
        fabric.record(COMMUNICATE, self.line, max(self.posted, fabric.arrivals.get(self.link, 0.0)), arrival)
        fabric.arrivals[self.link] = arrival

    def wait(self, timeout: float | None = None) -> None:
        began = self.fabric.now()
        self.work.wait(timeout)
        self.source = self.work.source
        if not self.virtual:
            self.fabric.record(COMMUNICATE, self.line, began, self.fabric.now())

    def done(self) -> bool:
        return self.work.done()

    def cancel(self) -> None:
        self.work.cancel()


class TracingFabric:
    """Everything of the wrapped fabric, and `intervals` of received messages and of `compute` on the resources named.

    Whatever is written on `Fabric` works on it (algorithms included); it is for one thread of a rank. `names`: resource
    of `compute` -> the name of its intervals; other resources leave none. Communication is seen from the receiving end.
    """

    # those of the base classes, so that they are built on the traced methods below
    send, recv, sendrecv = Fabric.send, Fabric.recv, Fabric.sendrecv
    allreduce, reduce_scatter = FabricWithAlgorithms.allreduce, FabricWithAlgorithms.reduce_scatter

    def __init__(self, inner: Fabric, names: Mapping[str, str]):
        self.inner, self.names = inner, dict(names)
        self.intervals: list[Interval] = []
        self.arrivals: dict[int, float] = {}  # rank -> when its last message was there

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def record(self, name: str, line: str, start: float, end: float) -> None:
        if end > start:
            self.intervals.append(Interval(line, name, start, end))

    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work:
        return TracedReceive(self, self.inner.irecv(tensor, source, tag, channel), source)

    @contextmanager
    def compute(self, seconds: float | None = None, resource: str | None = "device") -> Iterator[None]:
        with self.inner.compute(seconds, resource):
            began = self.inner.now()  # once the resource is free
            yield
        if resource in self.names:
            self.record(self.names[resource], self.current_task(), began, self.inner.now())

    def take(self) -> list[Interval]:
        """The intervals since the last call, in order of their starts."""
        found, self.intervals = self.intervals, []
        self.arrivals.clear()
        return sorted(found, key=lambda interval: interval.start)
