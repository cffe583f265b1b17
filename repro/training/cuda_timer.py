"""When a GPU reached points of its streams, without waiting for it: events, recorded now and read at the next stop.

The host runs ahead of a GPU: by its own clock a forward pass takes as long as its kernels take to be queued. An event
in the stream is passed when all before it is done, so two of them measure what the device did in between; where it had
nothing to do (the host waits for a message), that is the host's time too. Recording costs microseconds and stalls
nothing; reading waits for the device, and is done with the training clock paused.

Tested with made-up events; not yet run on a GPU.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Mark(NamedTuple):
    """A point of a stream: its event, the event and host time from which it is counted, and its number in order."""

    event: Any
    base: Any
    base_s: float
    number: int = 0


class DeviceTimes:
    """Marks on the streams of the tasks of one rank: each on that of the task that makes it."""

    def __init__(self, new_event: Callable[[], Any] | None = None):
        """new_event: makes an object with record(), synchronize() and elapsed_time(later) in milliseconds."""
        self._new_event = new_event or (lambda: torch.cuda.Event(enable_timing=True))
        self._spare: deque[Any] = deque()  # making an event costs more than recording one
        self._numbers = itertools.count()
        self._base: tuple[Any, float]  # by `anchor`

    def anchor(self, now: float) -> None:
        """The device is idle, and the host's clock shows `now` (seconds): later marks are counted from here."""
        event = self._new_event()  # never reused: marks of an earlier stretch may still be counted from the old one
        event.record()
        self._base = (event, now)

    def mark(self) -> Mark:
        """This point of the calling task's stream. `anchor` comes first."""
        try:
            event = self._spare.pop()
        except IndexError:
            event = self._new_event()
        event.record()
        return Mark(event, *self._base, next(self._numbers))

    def seconds(self, marks: list[Mark]) -> list[float]:
        """When each mark was passed, on the host's clock; waits until all are.

        Marks of one stream, in the order in which they were made; each may be asked for once.
        """
        seconds: list[float] = []
        before: Any = None
        base, at = None, 0.0
        for mark in marks:
            mark.event.synchronize()
            if mark.base is not base:
                before, base, at = mark.base, mark.base, mark.base_s
            # from the mark before: CUDA's milliseconds have 24 bits, too few for microseconds after a minute
            at += before.elapsed_time(mark.event) / 1e3
            before = mark.event
            seconds.append(at)
        self._spare += [mark.event for mark in marks]
        return seconds
