"""Times on a GPU's streams by CUDA events, which are recorded during training and read at the next stop.

The host runs ahead of a GPU: on its clock a forward pass takes as long as queueing its kernels. Two events in a
stream measure the time between them on the device, idle time included. Recording costs microseconds and stalls nothing;
reading synchronises with the device, while the training clock is paused.

Tested with simulated events; not yet run on a GPU.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Mark(NamedTuple):
    """A point of a stream: its event, the event and host time from which it counts, and its number in order."""

    event: Any
    base: Any
    base_s: float
    number: int = 0


class DeviceTimes:
    """Marks of one rank, each on the stream of the task that makes it."""

    def __init__(self, new_event: Callable[[], Any] | None = None):
        """new_event: makes an object with record(), synchronize() and elapsed_time(later) in milliseconds."""
        self._new_event = new_event or (lambda: torch.cuda.Event(enable_timing=True))
        self._spare: deque[Any] = deque()  # creating an event costs more than recording one
        self._numbers = itertools.count()
        self._base: tuple[Any, float]  # set by `anchor`

    def anchor(self, now: float) -> None:
        """Count later marks from now, when the device is idle and the host's clock shows `now` (seconds)."""
        event = self._new_event()  # never reused: earlier marks may still count from the old one
        event.record()
        self._base = (event, now)

    def mark(self) -> Mark:
        """Mark the current point of the calling task's stream. `anchor` must have been called."""
        try:
            event = self._spare.pop()
        except IndexError:
            event = self._new_event()
        event.record()
        return Mark(event, *self._base, next(self._numbers))

    def seconds(self, marks: list[Mark]) -> list[float]:
        """The time of each mark on the host's clock; waits until the device has reached all.

        The marks are of one stream, in order; each can be read once.
        """
        seconds: list[float] = []
        before: Any = None
        base, at = None, 0.0
        for mark in marks:
            mark.event.synchronize()
            if mark.base is not base:
                before, base, at = mark.base, mark.base, mark.base_s
            # relative to the previous mark: CUDA's milliseconds have 24 bits, too few for microseconds after a minute
            at += before.elapsed_time(mark.event) / 1e3
            before = mark.event
            seconds.append(at)
        self._spare += [mark.event for mark in marks]
        return seconds
