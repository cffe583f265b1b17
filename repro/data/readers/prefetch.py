"""A queue of minibatches that threads read during the computation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
AHEAD = 2  # minibatches to prefetch for a GPU, into pinned memory


class PrefetchQueue(Generic[T]):
    """Minibatches in progress, by their rows; thread-safe. begin: starts to read a minibatch."""

    def __init__(self, begin: Callable[[tuple[int, ...]], T]):
        self._begin = begin
        self._pending: dict[tuple[int, ...], T] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            return iter(list(self._pending.values()))

    def start(self, rows: tuple[int, ...], most: int) -> None:
        """Start a minibatch unless it is in progress; drop the oldest ones if there are more than `most`."""
        with self._lock:
            if rows not in self._pending:
                for old in list(self._pending)[: max(0, len(self._pending) - most)]:
                    del self._pending[old]
                self._pending[rows] = self._begin(rows)

    def take(self, rows: tuple[int, ...]) -> T:
        """Remove and return a minibatch in progress, or start it."""
        with self._lock:
            pending = self._pending.pop(rows, None)
        return self._begin(rows) if pending is None else pending


_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def reader_threads() -> ThreadPoolExecutor:
    """The thread pool of this process, with as many threads as cores (at most 16)."""
    with _lock:
        process = os.getpid()
        if process not in _pools:
            _pools[process] = ThreadPoolExecutor(min(16, len(os.sched_getaffinity(0))), "data")
        return _pools[process]
