"""A rank's messages of one direction, waited for in the order in which they were begun."""

from __future__ import annotations

from collections import deque

from repro.fabric.base import Fabric, Task, Work
from repro.training.clock import Clock


class Transfers:
    """Sends or receives under way; `end_next` waits for the oldest.

    watched   a task waits for each, so that it goes on while the main line computes. Where transfers go on by
              themselves (`Fabric.progresses`) it would take more time from the main line than it is worth
    clock     of watched ones: notes how long each was under way. That is the rank's communication
    """

    def __init__(self, fabric: Fabric, name: str, watched: bool, clock: Clock | None = None):
        self.fabric, self.clock = fabric, clock
        self.under_way: deque[Work] = deque()
        self.task: Task | None = None
        if watched:
            self.begun, self.ended = fabric.queue(), fabric.queue()
            self.task = fabric.spawn(self._wait, name)

    def __len__(self) -> int:
        return len(self.under_way)

    def begin(self, work: Work) -> None:
        self.under_way.append(work)
        if self.task:
            self.begun.put((work, self.fabric.now()))

    def end_next(self) -> None:
        work = self.under_way.popleft()
        if self.task:
            self.ended.get(timeout=float("inf"))  # the watcher's own wait ends in time, and names the peer
        else:
            work.wait()

    def _wait(self) -> None:
        before = 0.0
        while (item := self.begun.get(timeout=float("inf"))) is not None:
            work, began = item
            work.wait()
            now = self.fabric.now()
            if self.clock:
                self.clock.note("communicate", max(began, before), now)
            self.ended.put(before := now)

    def close(self) -> None:
        if self.task:
            self.begun.put(None)
            self.task.join()
