"""Minibatches, which are accessed by a global id, their shuffling from a seed, and a queue of those that are read
ahead."""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, Self, TypeVar

import torch

from repro.core.errors import InputError


class Samples(Protocol):
    """The members of `repro.data.base.Samples` that minibatches use."""

    @property
    def lookahead(self) -> int: ...
    def __len__(self) -> int: ...
    def to(self, device: torch.device | str) -> Self: ...
    def draw(self, rows: torch.Tensor, text: str) -> tuple[torch.Tensor, torch.Tensor]: ...
    def ahead(self, rows: torch.Tensor) -> None: ...


class Minibatches(ABC):
    """Minibatches by their global id, which counts from 0 over all epochs and workers.

    size       samples (for text: sequences) of a minibatch
    per_epoch  minibatches of an epoch: epoch e has the ids from e * per_epoch to (e + 1) * per_epoch - 1
    """

    size: int
    per_epoch: int

    @abstractmethod
    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x, with `size` samples along its first dimension, and y."""

    def begins(self, minibatch_id: int) -> bool:
        """Whether a minibatch does not continue its worker's previous one."""
        return True

    def work(self, minibatch_id: int) -> float:
        """The computation of a minibatch, relative to one whose samples have the data set's `input_shape`."""
        return 1.0


class Shuffled(Minibatches):
    """Random access to shuffled minibatches: `batches[minibatch_id] -> (x, y)`.

    The order depends on (seed, epoch) alone: the minibatches of an epoch are disjoint, an id means the same samples on
    every rank and after every resume, and no state has to be saved.
    """

    split: Samples
    _last = _step = 0  # the last id, and its distance from the one before

    def __init__(
        self,
        split: Samples,
        size: int,
        seed: int,
        per_epoch: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        """size: samples of a minibatch; per_epoch: minibatches of an epoch, by default all full ones; device: the
        device of the minibatches, by default the split's. InputError if the split is too small."""
        if size < 1:
            raise InputError(f"a minibatch needs at least one sample, not {size}")
        self.full = len(split) // size
        per_epoch = self.full if per_epoch is None else per_epoch
        if not 1 <= per_epoch <= self.full:
            raise InputError(f"{per_epoch} minibatches of {size} an epoch: {len(split)} samples give 1 to {self.full}")
        self.split = split if device is None else split.to(device)
        self.size, self.seed, self.per_epoch = size, seed, per_epoch
        self._epochs: dict[int, torch.Tensor] = {}

    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x (size, ...) and y of one minibatch; IndexError for ids below 0."""
        rows = self.indices(minibatch_id)
        minibatch = self.split.draw(rows, f"{self.seed}/{minibatch_id // self.per_epoch}")
        self.prefetch_next(minibatch_id)
        return minibatch

    def indices(self, minibatch_id: int) -> torch.Tensor:
        """The minibatch's rows in the split, (size,), on the host, so that reading them does not wait for a GPU."""
        if minibatch_id < 0:
            raise IndexError(f"minibatch id {minibatch_id} is below 0")
        epoch, slot = divmod(minibatch_id, self.per_epoch)
        return self._epoch(epoch)[slot]

    def prefetch_next(self, minibatch_id: int) -> None:
        """Start to read the next minibatches if ids advance in equal steps, as those of a data-parallel rank do."""
        step, before = minibatch_id - self._last, self._step
        self._last, self._step = minibatch_id, step
        if step == before > 0:
            for place in range(1, self.split.lookahead + 1):
                self.split.ahead(self.indices(minibatch_id + place * step))

    def _epoch(self, epoch: int) -> torch.Tensor:
        """The rows of an epoch's minibatches, shape (full, size); the two most recent epochs are kept."""
        rows = self._epochs.get(epoch)
        if rows is None:
            rows = self._shuffle(f"{self.seed}/{epoch}")
            # Replace the dictionary instead of changing it: pipeline threads may be reading the old one.
            self._epochs = dict([*self._epochs.items(), (epoch, rows)][-2:])
        return rows

    @abstractmethod
    def _shuffle(self, text: str) -> torch.Tensor:
        """The rows (full, size) of an epoch, drawn from a text of seed and epoch."""


class Batches(Shuffled):
    """Minibatches that are slices of a permutation of all samples.

    An iteration has the same samples for every number of workers. Samples that fill no minibatch are left out of an
    epoch.
    """

    def _shuffle(self, text: str) -> torch.Tensor:
        return seeded_order(len(self.split), text)[: self.full * self.size].view(self.full, self.size)


def seeded_order(count: int, text: str) -> torch.Tensor:
    """A random permutation (count,) that depends on the text alone."""
    return torch.randperm(count, generator=seeded_generator(text))


def seeded_generator(text: str) -> torch.Generator:
    """A random generator on the CPU whose stream depends on the text alone."""
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1)


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
