"""Samples of different lengths: minibatches of similar ones, padded to the longest of each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch

from repro.core.errors import InputError
from repro.data.base import EVALUATION_BATCH, EVALUATION_VALUES, Samples, Shuffled, chosen, seeded


class Sequences(Samples):
    """A split whose samples have lengths of their own.

    lengths  (N,) int64, on the CPU whatever the device
    nominal  the length that stands in the data set's `input_shape`; `Buckets.work` is counted in it
    buckets  of how many groups of similar length minibatches are drawn; 1: at random, whatever the lengths
    width    values of a step, for what an evaluation can hold at a time
    """

    lengths: torch.Tensor
    nominal: int
    buckets: int
    width: int

    def __len__(self) -> int:
        return len(self.lengths)

    @abstractmethod
    def to(self, device: torch.device | str) -> Sequences: ...

    @abstractmethod
    def take(self, rows: torch.Tensor) -> Sequences:
        """The split of these rows alone."""

    def subset(self, samples: int, seed: int = 0) -> Sequences:
        return self.take(chosen(len(self), samples, seed))

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.select(torch.arange(start, min(stop, len(self))))

    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Buckets:
        return Buckets(self, size, seed, self.iterations(size * workers) * workers, device)

    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every sample once, from the shortest to the longest, in pieces that are padded no more than minibatches are:
        by a sixteenth. A recurrent network that has not seen much padding does not know what to do with it."""
        order = self.lengths.argsort(stable=True)
        sizes, start, piece = self.lengths[order].tolist(), 0, 0
        while start < len(order):
            longest, stop = sizes[start] + sizes[start] // 16, start + 1
            most = min(EVALUATION_BATCH, EVALUATION_VALUES // (longest * self.width))
            while stop < len(order) and stop - start < most and sizes[stop] <= longest:
                stop += 1
            if piece >= first and (piece - first) % step == 0:
                yield self.select(order[start:stop])
            start, piece = stop, piece + 1


class Buckets(Shuffled):
    """Random access to minibatches of similar length by their global id: `batches[minibatch_id] -> (x, y)`.

    All samples stand in order of their length, cut into `split.buckets` groups of equal number; each epoch shuffles
    within the groups, cuts the whole into minibatches of `size`, and shuffles those. So a minibatch's samples are of
    one group (at a border of two), their company changes from epoch to epoch, and workers of one iteration have
    minibatches of different lengths: the imbalance of eager-SGD section 2.1 ("videos with similar lengths are grouped
    into buckets").

    All of it is drawn from (seed, epoch) alone: an epoch's minibatches are disjoint, an id means the same samples on
    every rank and after every resume, and with the same `size` the ids of an epoch are the same minibatches for any
    number of workers. (Other than in `Batches` an iteration's samples depend on the number of workers, as a minibatch
    of one worker is of one length, and that of eight is not.) What is no full minibatch is left out, at random.
    """

    split: Sequences

    def __init__(
        self,
        split: Sequences,
        size: int,
        seed: int,
        per_epoch: int | None = None,
        device: torch.device | str | None = None,
    ):
        """`size`, `per_epoch`, `device`: as of `Batches`."""
        if size < 1:
            raise InputError(f"a minibatch needs at least one sample, not {size}")
        self.full = len(split) // size
        per_epoch = self.full if per_epoch is None else per_epoch
        if not 1 <= per_epoch <= self.full:
            raise InputError(f"{per_epoch} minibatches of {size} an epoch: {len(split)} samples give 1 to {self.full}")
        self.split = split if device is None else split.to(device)
        self.size, self.seed, self.per_epoch = size, seed, per_epoch
        self._by_length = split.lengths.argsort(stable=True)
        self._epochs: dict[int, torch.Tensor] = {}

    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x (size, longest, ...) and y of one minibatch; ids below 0 raise IndexError."""
        drawn = self.split.select(self.indices(minibatch_id))
        self.begin_next(minibatch_id)
        return drawn

    def indices(self, minibatch_id: int) -> torch.Tensor:
        if minibatch_id < 0:
            raise IndexError(f"minibatch id {minibatch_id} is below 0")
        epoch, slot = divmod(minibatch_id, self.per_epoch)
        return self._epoch(epoch)[slot]

    def length(self, minibatch_id: int) -> int:
        """Steps that the minibatch is padded to."""
        return int(self.split.lengths[self.indices(minibatch_id)].max())

    def work(self, minibatch_id: int) -> float:
        """Its padded length over the nominal one: a recurrent network computes every step, padding or not."""
        return self.length(minibatch_id) / self.split.nominal

    def _epoch(self, epoch: int) -> torch.Tensor:
        """The minibatches of one epoch, (full, size); the last two epochs asked for are kept."""
        found = self._epochs.get(epoch)
        if found is None:
            generator = seeded(f"{self.seed}/{epoch}")
            used, count = self.full * self.size, len(self.split)
            kept = torch.randperm(count, generator=generator)[:used].sort().values
            buckets = min(self.split.buckets, self.full)
            bucket = torch.arange(used) * buckets // used
            places = (bucket + torch.rand(used, generator=generator, dtype=torch.float64)).argsort(stable=True)
            minibatches = self._by_length[kept][places].view(self.full, self.size)
            found = minibatches[torch.randperm(self.full, generator=generator)]
            # A new dictionary, never one changed in place: other threads may be reading the old one.
            self._epochs = dict([*self._epochs.items(), (epoch, found)][-2:])
        return found
