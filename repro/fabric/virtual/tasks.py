"""Tasks, events, queues and locks of a virtual rank."""

from __future__ import annotations

from collections import deque
from typing import Any

from repro.fabric.base import Event, Queue, Task
from repro.fabric.virtual.scheduler import Scheduler, VirtualTask


class VirtualTaskHandle(Task):
    def __init__(self, scheduler: Scheduler, task: VirtualTask):
        self.scheduler, self.task, self.name = scheduler, task, task.name

    def join(self, timeout: float | None = None) -> Any:
        what = f"the end of task {self.name}"
        self.scheduler.wait_until(lambda: self.task.finished, self.task.joiners.append, what, timeout)
        if self.task.error:
            raise self.task.error
        return self.task.result

    def cancel(self) -> None:
        self.task.cancelled = True
        self.scheduler.wake(self.task)


class VirtualEvent(Event):
    def __init__(self, scheduler: Scheduler):
        self.scheduler, self.flag = scheduler, False
        self.waiters: list[VirtualTask] = []

    def set(self) -> None:
        self.flag = True
        for task in self.waiters:
            self.scheduler.wake(task)
        self.waiters.clear()

    def clear(self) -> None:
        self.flag = False

    def is_set(self) -> bool:
        return self.flag

    def wait(self, timeout: float | None = None) -> None:
        self.scheduler.wait_until(self.is_set, self.waiters.append, "an event", timeout)


class VirtualQueue(Queue):
    def __init__(self, scheduler: Scheduler):
        self.items: deque = deque()
        self.scheduler = scheduler
        self.waiters: list[VirtualTask] = []

    def put(self, item: Any) -> None:
        self.items.append(item)
        for task in self.waiters:
            self.scheduler.wake(task)
        self.waiters.clear()

    def get(self, timeout: float | None = None) -> Any:
        self.scheduler.check()
        self.scheduler.wait_until(lambda: bool(self.items), self.waiters.append, "an item of a queue", timeout)
        return self.items.popleft()

    def __len__(self) -> int:
        return len(self.items)


class VirtualLock:
    """Mutual exclusion between tasks of one rank, first come first served."""

    def __init__(self, scheduler: Scheduler, what: str = "a lock"):
        self.scheduler, self.what = scheduler, what
        self.holder: VirtualTask | None = None
        self.waiters: deque[VirtualTask] = deque()

    def __enter__(self) -> VirtualLock:
        me = self.scheduler.current
        if self.holder is not None or self.waiters:
            self.waiters.append(me)
            try:
                while self.holder is not me:  # handed over by __exit__
                    self.scheduler.block(self.what)
            except BaseException:  # cancelled, or the run has failed: leave the line, or pass on what was handed over
                if self.holder is me:
                    self.__exit__()
                else:
                    self.waiters.remove(me)
                raise
        self.holder = me
        return self

    def __exit__(self, *_: object) -> None:
        self.holder = self.waiters.popleft() if self.waiters else None
        if self.holder is not None:
            self.scheduler.wake(self.holder)
