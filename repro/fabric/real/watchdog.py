"""A time limit for NCCL, whose waits have none: a thread watches its operations and names one that is late."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from repro.fabric.base import FabricError, timeout_error
from repro.fabric.real.threads import TaskGroup

CHECK_S = 1.0  # between two checks
GRACE_S = 5.0  # before the process of a rank that hangs in the library is ended


class Transfer(Protocol):
    """torch's handle of an operation in progress."""

    def is_completed(self) -> bool: ...


@dataclass
class Watched:
    """An operation in progress. since: when it became the first in its stream."""

    transfer: Transfer
    what: str
    task: str
    since: float


class Watchdog:
    """Watches the operations of one rank.

    A stream runs its operations in order, so only the first unfinished one can be late; its time counts from when it
    became the first.

    NCCL's `wait` only blocks the task's stream. The host goes on, and hangs later in a call that waits for the device,
    where no exception can reach it. So every wait of the rank's tasks raises the error (`TaskGroup.fail`); if the
    process has not ended `GRACE_S` seconds later, `TaskGroup.on_fatal` ends it.
    """

    def __init__(self, tasks: TaskGroup, now: Callable[[], float] = time.monotonic):
        self.tasks, self.now = tasks, now
        self.streams: dict[Hashable, deque[Watched]] = defaultdict(deque)
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def watch(self, transfer: Transfer, what: str, stream: Hashable) -> None:
        """Watch an operation in the given stream of the rank."""
        with self.lock:
            self.streams[stream].append(Watched(transfer, what, self.tasks.current_name(), self.now()))

    def start(self) -> None:
        """Check every `CHECK_S` seconds, on a separate thread, until an operation is late."""
        self.thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (error := self.check()) is None:
            time.sleep(CHECK_S)
        self.tasks.fail(error)
        time.sleep(GRACE_S)
        self.tasks.on_fatal(error)

    def check(self) -> FabricError | None:
        """Forget finished operations; return the error of a late one."""
        now = self.now()
        with self.lock:
            for stream in self.streams.values():
                while stream and stream[0].transfer.is_completed():
                    stream.popleft()
                    if stream:
                        stream[0].since = now
                if stream and now - stream[0].since > self.tasks.timeout_s:
                    first = stream[0]
                    return timeout_error(self.tasks.rank, first.task, first.what, now - first.since)
        return None
