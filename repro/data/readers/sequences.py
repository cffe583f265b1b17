"""Samples of different lengths, in minibatches of similar length, padded to the longest sample."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property

import torch

from repro.data.base import EVALUATION_BATCH, EVALUATION_VALUES, Samples, choose_rows
from repro.data.minibatches import Shuffled, seeded_generator


class Sequences(Samples):
    """A split whose samples differ in length.

    lengths  (N,) int64, always on the CPU
    nominal  the length in the data set's `input_shape`, and the unit of `Buckets.work`
    buckets  the number of groups of similar length; 1: minibatches are drawn at random
    bucketing  groups have equal numbers of samples ("count") or equal ranges of lengths ("width")
    width    values of a step, which limit the size of an evaluation's pieces
    """

    lengths: torch.Tensor
    nominal: int
    buckets: int
    bucketing: str = "count"
    width: int

    def __len__(self) -> int:
        return len(self.lengths)

    @abstractmethod
    def to(self, device: torch.device | str) -> Sequences: ...

    @abstractmethod
    def take(self, rows: torch.Tensor) -> Sequences:
        """The split of these rows."""

    def subset(self, samples: int, seed: int = 0) -> Sequences:
        return self.take(choose_rows(len(self), samples, seed))

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.select(torch.arange(start, min(stop, len(self))))

    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Buckets:
        return Buckets(self, size, seed, self.iterations(size * workers) * workers, device)

    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every sample once, from the shortest to the longest, in pieces with at most a sixteenth of padding, because a
        recurrent network predicts badly with more padding than in training."""
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
    """Minibatches of samples of similar length.

    All samples are sorted by length and cut into `split.buckets` groups, of equal size or equal width. Each epoch
    shuffles within the groups, cuts the sequence into minibatches of `size`, and shuffles the minibatches. So a
    minibatch comes from one group (from two at a border), and the workers of an iteration have minibatches of different
    lengths: the imbalance of eager-SGD section 2.1 ("videos with similar lengths are grouped into buckets").

    With the same `size` an epoch has the same minibatches for any number of workers; unlike in `Batches`, an
    iteration's samples depend on that number. Samples that fill no minibatch are left out at random.
    """

    split: Sequences

    @cached_property
    def _by_length(self) -> torch.Tensor:
        return self.split.lengths.argsort(stable=True)

    def length(self, minibatch_id: int) -> int:
        """The number of steps to which the minibatch is padded."""
        return int(self.split.lengths[self.indices(minibatch_id)].max())

    def work(self, minibatch_id: int) -> float:
        """The padded length relative to the nominal one: a recurrent network computes every step, also of padding."""
        return self.length(minibatch_id) / self.split.nominal

    def _shuffle(self, text: str) -> torch.Tensor:
        generator = seeded_generator(text)
        used, count = self.full * self.size, len(self.split)
        chosen_rows = torch.randperm(count, generator=generator)[:used].sort().values
        buckets = min(self.split.buckets, self.full)
        bucket = torch.arange(used) * buckets // used
        if self.split.bucketing == "width":
            lengths = self.split.lengths[self._by_length[chosen_rows]]
            least, most = int(self.split.lengths.min()), int(self.split.lengths.max())
            bucket = (lengths - least) * buckets // (most - least + 1)
        places = (bucket + torch.rand(used, generator=generator, dtype=torch.float64)).argsort(stable=True)
        minibatches = self._by_length[chosen_rows][places].view(self.full, self.size)
        return minibatches[torch.randperm(self.full, generator=generator)]
