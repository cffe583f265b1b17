"""A rank's messages in one direction, completed in the order of their start."""

from __future__ import annotations

from collections import deque

from repro.fabric.base import Fabric, Task, Work
from repro.training.clock import Clock


class Transfers:
    """Sends or receives in progress; `end_next` waits for the oldest.

    watched   a task waits for each transfer, so that it progresses while the main task computes; not needed on fabrics
              whose transfers progress by themselves (`Fabric.progresses`)
    clock     records how long watched transfers were in progress, as the rank's communication
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
            self.ended.get(
                timeout=float("inf")
            )  # the task's `work.wait` has a time limit, and its error names the peer
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
