"""Tasks, events and queues of the real fabrics: threads whose errors reach the rank, and whose waits time out.

On a GPU each task has a stream of its own (`repro.fabric.real.streams`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from repro.fabric.base import CONTROL, Event, Fabric, FabricError, Queue, Task, TaskCancelled, timeout_error
from repro.fabric.collectives import algorithms
from repro.fabric.collectives.algorithms import FabricWithAlgorithms
from repro.fabric.collectives.auto import Crossover
from repro.fabric.real import streams
from repro.fabric.real.streams import Streams

MAIN_TASK = "main"
LONGEST_WAIT_S = 3600.0  # of one system call, which accepts no infinite timeout


class ThreadTask(Task):
    def __init__(self, tasks: TaskGroup, fn: Callable[[], Any], name: str):
        self.tasks, self.fn, self.name = tasks, fn, name
        self.cancelled = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.stream = tasks.streams.own()
        self.mark = tasks.streams.mark()  # in the parent's stream; at the task's end in its own
        self.thread = threading.Thread(target=self._body, name=name, daemon=True)

    def _body(self) -> None:
        self.tasks.local.task = self
        try:
            with self.stream:
                self.tasks.streams.follow(self.mark)
                self.result = self.fn()
                self.mark = self.tasks.streams.mark()
        except TaskCancelled:
            pass
        except BaseException as error:
            self.error = error
            self.tasks.failed = self.tasks.failed or error
        finally:
            self.ended.set()
            self.tasks.changed()

    def join(self, timeout: float | None = None) -> Any:
        self.tasks.wait_until(self.ended.is_set, f"the end of task {self.name}", timeout)
        if self.error:
            raise self.error
        self.tasks.streams.follow(self.mark, self.result)
        return self.result

    def cancel(self) -> None:
        self.cancelled = True
        self.tasks.changed()


class TaskGroup:
    """The threads of one rank. All waits sleep on one condition, so that no wake-up is missed."""

    def __init__(self, rank: int, timeout_s: float):
        self.rank, self.timeout_s = rank, timeout_s
        self.local = threading.local()
        self.condition = threading.Condition()
        self.failed: BaseException | None = None
        self.waits: dict[int, tuple[str, str, float]] = {}  # thread -> task name, what it waits for, since when
        # ends the process if a library call never returns, so that no error can be raised
        self.on_fatal: Callable[[FabricError], object] = lambda error: None
        self.missing: Callable[[], str] = str  # names the ranks that do not respond, for a wait without a peer

    @property
    def streams(self) -> Streams:
        return streams.process_streams()

    def current(self) -> ThreadTask | None:
        return getattr(self.local, "task", None)

    def current_name(self) -> str:
        task = self.current()
        return task.name if task else MAIN_TASK

    def check(self) -> None:
        """Raise TaskCancelled if the calling task was cancelled, or the error of another task of the rank."""
        task = self.current()
        if task is not None and task.cancelled:
            raise TaskCancelled
        if self.failed is not None and (task is None or task.error is None):
            raise self.failed

    def fail(self, error: BaseException) -> None:
        """Make every task raise this error at its current or next wait, unless an earlier error exists."""
        self.failed = self.failed or error
        self.changed()

    def changed(self) -> None:
        with self.condition:
            self.condition.notify_all()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A context in which the calling task waits for `what`; timeout errors of other tasks mention it."""
        thread = threading.get_ident()
        self.waits[thread] = self.current_name(), what, time.monotonic()
        try:
            yield
        finally:
            del self.waits[thread]

    def timeout_error(self, limit: float) -> FabricError:
        """The timeout error of the calling task, inside `waiting`."""
        now, waits = time.monotonic(), self.waits.copy()
        name, what, _ = waits.pop(threading.get_ident())
        others = [(other, awaited, now - since) for other, awaited, since in waits.values()]
        return timeout_error(self.rank, name, what, limit, others)

    def wait_until(self, ready: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Sleep until `ready()`, which is called with the condition held; FabricError after the limit."""
        limit = self.timeout_s if timeout is None else timeout
        started = time.monotonic()
        with self.waiting(what), self.condition:
            while not ready():
                self.check()
                left = started + limit - time.monotonic()
                if left <= 0:
                    error = self.timeout_error(limit)
                    break
                self.condition.wait(min(left, LONGEST_WAIT_S))
            else:
                return
        raise FabricError(f"{error}{self.missing()}")  # with the condition released, because `missing` takes a while


class ThreadEvent(Event):
    def __init__(self, tasks: TaskGroup):
        self.tasks, self.flag, self.mark = tasks, False, None

    def set(self) -> None:
        self.mark = self.tasks.streams.mark()
        with self.tasks.condition:
            self.flag = True
            self.tasks.condition.notify_all()

    def clear(self) -> None:
        self.flag = False

    def is_set(self) -> bool:
        if self.flag:
            self.tasks.streams.follow(self.mark)
        return self.flag

    def wait(self, timeout: float | None = None) -> None:
        self.tasks.wait_until(lambda: self.flag, "an event", timeout)
        self.tasks.streams.follow(self.mark)


class ThreadQueue(Queue):
    def __init__(self, tasks: TaskGroup):
        self.tasks = tasks
        self.items: deque = deque()

    def put(self, item: Any) -> None:
        mark = self.tasks.streams.mark()
        with self.tasks.condition:
            self.items.append((item, mark))
            self.tasks.condition.notify_all()

    def get(self, timeout: float | None = None) -> Any:
        first = []

        def pop() -> bool:
            if self.items:
                first.append(self.items.popleft())
            return bool(first)

        self.tasks.wait_until(pop, "an item of a queue", timeout)
        [(item, mark)] = first
        self.tasks.streams.follow(mark, item)
        return item

    def __len__(self) -> int:
        return len(self.items)


class ThreadLock(AbstractContextManager):
    """A lock whose holder's stream waits for the work of the previous holder."""

    def __init__(self, tasks: TaskGroup):
        self.tasks, self.lock, self.mark = tasks, threading.Lock(), None

    def __enter__(self) -> None:
        self.lock.acquire()
        self.tasks.streams.follow(self.mark)

    def __exit__(self, *raised: object) -> None:
        self.mark = self.tasks.streams.mark()
        self.lock.release()


class RealTimeFabric(FabricWithAlgorithms):
    """The common base of fabrics on real processes: wall-clock time and threads."""

    tasks: TaskGroup
    timeout_s: float

    def now(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self.tasks.check()

    def find_auto(self) -> Crossover:
        return algorithms.find_crossover(self)

    def spawn(self, fn: Callable[[], Any], name: str = "background") -> Task:
        task = ThreadTask(self.tasks, fn, name)
        task.thread.start()
        return task

    def event(self) -> Event:
        return ThreadEvent(self.tasks)

    def queue(self) -> Queue:
        return ThreadQueue(self.tasks)

    def lock(self) -> AbstractContextManager:
        return ThreadLock(self.tasks)

    def current_task(self) -> str:
        return self.tasks.current_name()


TAG = 4242
SECONDS = 2.0  # ranks that waited for the same operation time out within this span


def find_missing_ranks(fabric: Fabric, seconds: float = SECONDS) -> str:
    """ "; no response from rank 1, 3": the ranks that do not join this call in time; empty if all do.

    A rank calls it when a wait has timed out; so do the others that wait for the same operation.
    """
    message = torch.zeros(1)
    peers = [rank for rank in range(fabric.size) if rank != fabric.rank]
    silent = []
    try:
        expected = [fabric.irecv(torch.empty(1), peer, TAG, CONTROL) for peer in peers]
        for peer in peers:
            fabric.isend(message, peer, TAG, CONTROL)
        for peer, receive in zip(peers, expected):
            try:
                receive.wait(seconds)
            except FabricError:
                silent.append(peer)
    except FabricError:  # no message can be started
        return ""
    return f"; no response from rank {', '.join(map(str, silent))}" if silent else ""
