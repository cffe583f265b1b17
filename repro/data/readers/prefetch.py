"""What was begun of minibatches before they are drawn, so that files are read and decoded beside the computation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
AHEAD = 2  # minibatches that a GPU finds read, in pinned memory


class PrefetchQueue(Generic[T]):
    """By the rows of each; any thread may ask. begun: begins a minibatch of rows."""

    def __init__(self, begun: Callable[[tuple[int, ...]], T]):
        self._begun = begun
        self._pending: dict[tuple[int, ...], T] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            return iter(list(self._pending.values()))

    def start(self, rows: tuple[int, ...], most: int) -> None:
        """Where it is not begun yet; the oldest of more than `most`, which nobody drew, are forgotten."""
        with self._lock:
            if rows not in self._pending:
                for old in list(self._pending)[: max(0, len(self._pending) - most)]:
                    del self._pending[old]
                self._pending[rows] = self._begun(rows)

    def take(self, rows: tuple[int, ...]) -> T:
        """What was begun of it, or is now."""
        with self._lock:
            coming = self._pending.pop(rows, None)
        return self._begun(rows) if coming is None else coming


_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def pool() -> ThreadPoolExecutor:
    """One pool a process, as many threads as it may use cores."""
    with _lock:
        process = os.getpid()
        if process not in _pools:
            _pools[process] = ThreadPoolExecutor(min(16, len(os.sched_getaffinity(0))), "data")
        return _pools[process]
