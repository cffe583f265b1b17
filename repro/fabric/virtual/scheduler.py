"""The discrete-event scheduler of the virtual fabric: tasks are greenlets of one thread, time is virtual.

The task with the least virtual time runs next (ties by rank, then by order of scheduling), so a program has the same
interleaving every time. A task that waits switches to the next one; nothing sleeps.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from heapq import heappop, heappush
from typing import Any

import torch
from greenlet import GreenletExit, getcurrent, greenlet
from torch.utils._python_dispatch import _disable_current_modes

from repro.fabric.base import FabricError, TaskCancelled, timeout_error

DEVICES = ("cpu", "cuda")  # on which arithmetic may run
COLLECT_AT = 20_000  # new objects before a garbage collection; Python's default is 700


class VirtualTask:
    """A task of a rank with its own virtual time, `now`, in seconds."""

    def __init__(self, rank: int, name: str, fn: Callable[[], Any], now: float):
        self.rank, self.name, self.fn, self.now = rank, name, fn, now
        self.greenlet: greenlet
        self.waiting_for: object = None  # str of it describes the wait in errors
        self.waits_since = 0.0
        self.blocks = 0  # counts waits, so that the timeout of an earlier wait does not end a later one
        self.timed_out = False
        self.cancelled = False
        self.finished = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.joiners: list[VirtualTask] = []


class Scheduler:
    """Runs the tasks of all ranks in the order of virtual time, in the thread and greenlet that created it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.current: VirtualTask  # the running task
        self.failure: FabricError | None = None
        self.tasks: list[VirtualTask] = []
        self._order = itertools.count()
        # (time, rank, order, task or callback); order is unique, so the last entry is never compared
        self._heap: list[tuple[float, int, int, Any]] = []
        self.alive = 0  # tasks that have not ended
        # called when nothing is due; returns whether it has scheduled something
        self.when_stuck: Callable[[], bool] = lambda: False
        self._hub = getcurrent()  # a task's greenlet switches here when it ends

    # --- called from outside
    def run(self) -> None:
        """Run until all tasks have ended.

        Every greenlet starts from this line, so that the C stack above it does not change: torch walks it to record
        where its errors come from.
        """
        with _few_collections():
            while (task := self._next()) is not None:
                while task is not None:  # a waiting task returns the next one if that has not started
                    task = task.greenlet.switch()

    def add(self, rank: int, name: str, fn: Callable[[], Any], now: float = 0.0) -> VirtualTask:
        task = VirtualTask(rank, name, fn, now)
        task.greenlet = greenlet(partial(self._body, task), self._hub)
        self.tasks.append(task)
        self.alive += 1
        self._schedule(now, rank, task)
        return task

    def at(self, time: float, rank: int, callback: Callable[[], None]) -> None:
        """Run `callback` at a virtual time. It may wake tasks but must not wait."""
        heappush(self._heap, (time, rank, next(self._order), callback))

    # --- called by the running task
    def advance(self, seconds: float) -> None:
        """Advance the running task's time."""
        if seconds < 0:
            raise ValueError(f"time cannot go back: advance({seconds})")
        self.advance_to(self.current.now + seconds)

    def advance_to(self, time: float) -> None:
        task = self._waiting_task()
        self._schedule(time, task.rank, task)
        self._yield(task)

    def wait_until(
        self,
        ready: Callable[[], bool],
        waiters: Callable[[VirtualTask], Any],
        what: object,
        timeout: float | None = None,
    ) -> None:
        """Block until `ready()`, also after spurious wake-ups; `waiters` registers the task to be woken."""
        started = self.current.now
        while not ready():
            waiters(self.current)
            self.block(what, timeout, started)

    def block(self, what: object, timeout: float | None = None, started: float | None = None) -> None:
        """Wait for `wake`; `what` names the wait in errors.

        Raises FabricError `timeout` seconds after `started` (now, if not given).
        """
        task = self._waiting_task()
        task.waiting_for, task.timed_out = what, False
        task.blocks += 1
        task.waits_since, generation = task.now if started is None else started, task.blocks
        if timeout is not None and timeout != float("inf"):

            def expire() -> None:
                if task.waiting_for is not None and task.blocks == generation:
                    task.timed_out = True
                    self.wake(task)

            self.at(max(task.now, task.waits_since + timeout), task.rank, expire)
        self._yield(task)
        if task.timed_out:
            others = [
                (other.name, other.waiting_for, task.now - other.waits_since)
                for other in self.tasks
                if other.rank == task.rank and other.waiting_for is not None
            ]
            raise timeout_error(task.rank, task.name, what, task.now - task.waits_since, others)

    def wake(self, task: VirtualTask) -> None:
        """Resume a blocked task at the current time; no effect on other tasks."""
        if task.waiting_for is None or task.finished:
            return
        task.waiting_for = None
        self._schedule(max(task.now, self.now), task.rank, task)

    def resume(self, task: VirtualTask, time: float) -> None:
        """Resume a blocked task at the given time; nothing that has happened since may depend on it."""
        task.waiting_for = None
        self._schedule(time, task.rank, task)

    def only_tasks(self, count: int) -> bool:
        """Whether exactly `count` tasks are alive and no callback is scheduled."""
        return self.alive == count and all(what.__class__ is VirtualTask for *_, what in self._heap)

    def check(self) -> None:
        """Raise the run's failure, or TaskCancelled if the running task was cancelled."""
        if self.failure is not None:
            raise self.failure
        if self.current.cancelled:
            raise TaskCancelled

    def fail(self, error: FabricError) -> None:
        """End the run: every task raises this error at its current or next wait."""
        if self.failure is None:
            self.failure = error
        for task in self.tasks:
            self.wake(task)

    # --- internal
    def _waiting_task(self) -> VirtualTask:
        """The running task, which is about to wait; FabricError inside a backward pass."""
        if torch._C._current_graph_task_id() != -1:
            raise FabricError("a task waits inside a backward pass, during which no other task could run one")
        return self.current

    def _schedule(self, time: float, rank: int, what: Any) -> None:
        heappush(self._heap, (time, rank, next(self._order), what))

    def _yield(self, task: VirtualTask) -> None:
        due = self._next()
        if due is not task:
            assert due is not None  # because `task` has not ended
            if due.greenlet:  # it has started
                _switch(due.greenlet)
            else:
                _switch(self._hub, due)
        self.check()

    def _next(self) -> VirtualTask | None:
        """Run callbacks until a task is due, and return it; None when all tasks have ended."""
        heap = self._heap
        while heap or self.when_stuck() or self._report_deadlock():
            self.now, _, _, what = heappop(heap)
            if what.__class__ is VirtualTask:
                what.now = self.now
                self.current = what
                return what
            what()
        return None

    def _report_deadlock(self) -> bool:
        """Nothing is due: if tasks still wait, fail the run, which wakes them, and return True."""
        stuck = [task for task in self.tasks if not task.finished]
        if not stuck:
            return False
        waits = "; ".join(f"rank {t.rank} ({t.name}) waits for {t.waiting_for}" for t in stuck)
        ended = sorted({t.rank for t in self.tasks if t.name == "main" and t.finished})
        note = f"; ended: rank {', '.join(map(str, ended))}" if ended else ""
        self.fail(FabricError(f"deadlock at {self.now:g} virtual seconds: {waits}{note}"))
        return True

    def _body(self, task: VirtualTask) -> None:
        try:
            self.check()
            task.result = task.fn()
        except TaskCancelled:
            pass
        except (KeyboardInterrupt, GreenletExit):  # ends the whole run, in the hub
            raise
        except BaseException as error:  # any error of a rank has to reach all ranks
            task.error = error
            if error is not self.failure:
                self.fail(FabricError(f"rank {task.rank} ({task.name}) failed: {type(error).__name__}: {error}"))
        task.finished = True
        self.alive -= 1
        for joiner in task.joiners:
            self.wake(joiner)


@contextmanager
def _few_collections() -> Iterator[None]:
    """A context with rare garbage collections: thousands of messages are in flight, and none is part of a cycle."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_AT, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _switch(to: greenlet, *values: Any) -> None:
    """Switch to another task. torch's thread-local state (gradient mode, autocast, dispatch modes) belongs to the
    current task: every task starts in torch's default state, and is left and resumed in it."""
    usual = torch.is_grad_enabled() and not torch._C._is_any_autocast_enabled()
    if usual and not torch._C._len_torch_dispatch_stack():
        to.switch(*values)
        return
    with _disable_current_modes(), torch.inference_mode(False), torch.enable_grad(), _without_autocast():
        to.switch(*values)


@contextmanager
def _without_autocast() -> Iterator[None]:
    with ExitStack() as stack:
        for device in DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
