"""A timeout for NCCL, whose waits have none: a thread watches its operations and names one that is late."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from repro.fabric.base import FabricError, overdue
from repro.fabric.real.threads import TaskGroup

LOOK_S = 1.0  # between two checks
GRACE_S = 5.0  # before the process of a rank that hangs in the library is ended


class Transfer(Protocol):
    """torch's handle of an operation in progress."""

    def is_completed(self) -> bool: ...


@dataclass
class Watched:
    """An operation in progress. since: when it became the first in its stream."""

    transfer: Transfer
    what: str
    line: str
    since: float


class Watchdog:
    """Watches the operations of one rank. A stream runs its operations in order, so only the first unfinished one can
    be late; its time counts from when it became the first.

    On NCCL `wait` only makes the task's stream wait, the host goes on, and hangs later in whatever asks the device: no
    exception can reach it there. So every wait of the rank's tasks raises the error (`TaskGroup.fail`); where that ends
    nothing within `GRACE_S` seconds, `TaskGroup.on_fatal` ends the process.
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
        """Check every `LOOK_S` seconds, on a thread of its own, until an operation is late."""
        self.thread = threading.Thread(target=self._walk, name="watchdog", daemon=True)
        self.thread.start()

    def _walk(self) -> None:
        while (error := self.look()) is None:
            time.sleep(LOOK_S)
        self.tasks.fail(error)
        time.sleep(GRACE_S)
        self.tasks.on_fatal(error)

    def look(self) -> FabricError | None:
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
                    return overdue(self.tasks.rank, first.line, first.what, now - first.since)
        return None
