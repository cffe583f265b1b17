"""A wrapper of a fabric that records when this rank communicated and computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from repro.core.phases import COMMUNICATION
from repro.fabric.base import MAIN, Fabric, Work
from repro.fabric.collectives.algorithms import FabricWithAlgorithms
from repro.training.clock import Interval


class TracedReceive(Work):
    """A receive that records its communication.

    In virtual time the interval begins when the receive was posted, or when the previous message on that link arrived,
    and ends when the message arrives, whatever the rank does meanwhile. In real time the arrival is unknown: the
    interval is the rank's wait, in which MPI also copies long messages, without the transfer before it.
    """

    def __init__(self, fabric: TracingFabric, work: Any, link: int):
        self.fabric, self.work, self.link = fabric, work, link
        self.posted, self.line = fabric.now(), fabric.current_task()
        self.virtual = fabric.name == "virtual"
        if self.virtual and not work.finished:  # a message that arrived before its receive was posted takes no time
            work.then(self._arrived)

    def _arrived(self) -> None:
        fabric, arrival = self.fabric, self.work.fabric.scheduler.now
        fabric.record(COMMUNICATION, self.line, max(self.posted, fabric.arrivals.get(self.link, 0.0)), arrival)
        fabric.arrivals[self.link] = arrival

    def wait(self, timeout: float | None = None) -> None:
        start = self.fabric.now()
        self.work.wait(timeout)
        self.source = self.work.source
        if not self.virtual:
            self.fabric.record(COMMUNICATION, self.line, start, self.fabric.now())

    def done(self) -> bool:
        return self.work.done()

    def cancel(self) -> None:
        self.work.cancel()


class TracingFabric:
    """The wrapped fabric, and `intervals` of received messages and of `compute`; for one thread of a rank.

    Algorithms written on `Fabric` run on it. names: resource of `compute` -> the name of its intervals; other resources
    are not recorded. Communication is recorded at the receiver.
    """

    # the methods of the base classes, so that they call the traced methods below
    send, recv, sendrecv = Fabric.send, Fabric.recv, Fabric.sendrecv
    allreduce, reduce_scatter = FabricWithAlgorithms.allreduce, FabricWithAlgorithms.reduce_scatter

    def __init__(self, inner: Fabric, names: Mapping[str, str]):
        self.inner, self.names = inner, dict(names)
        self.intervals: list[Interval] = []
        self.arrivals: dict[int, float] = {}  # rank -> when its last message arrived

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
            start = self.inner.now()  # once the resource is free
            yield
        if resource in self.names:
            self.record(self.names[resource], self.current_task(), start, self.inner.now())

    def take(self) -> list[Interval]:
        """The intervals since the last call, in order of their starts."""
        intervals, self.intervals = self.intervals, []
        self.arrivals.clear()
        return sorted(intervals, key=lambda interval: interval.start)
