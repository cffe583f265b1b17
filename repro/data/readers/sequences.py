"""Samples of different lengths, in minibatches of similar length, padded to the longest sample: sentence pairs,
videos."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from repro.core.not_none import not_none
from repro.core.word_numbers import BOS, EOS, PAD
from repro.data.base import EVALUATION_BATCH, EVALUATION_VALUES, Samples, choose_rows, move_tensor
from repro.data.minibatches import AHEAD, PrefetchQueue, Shuffled, reader_threads, seeded_generator
from repro.data.readers.text import IGNORED
from repro.data.readers.tokens import Pair, pair_length
from repro.data.readers.ucf101_videos import Frames, Source, Video


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


class Pairs(Sequences):
    """Sentence pairs: x (n, 2 L) int64, y (n L,) int64; see `repro.data.sets.multi30k`."""

    task: ClassVar[str] = "text"
    kind: ClassVar[str] = "sentence pairs"
    width = 2048  # values of a word in the largest activations

    def __init__(self, pairs: list[Pair], nominal: int, buckets: int, device: torch.device | str = "cpu"):
        self.pairs, self.nominal, self.buckets, self._device = pairs, nominal, buckets, torch.device(device)
        self.lengths = torch.tensor([pair_length(pair) for pair in pairs])

    @property
    def y(self) -> torch.Tensor:
        """The words to predict, pair after pair."""
        return torch.from_numpy(np.concatenate([np.append(target, EOS) for _, target in self.pairs])).to(self.device)

    @property
    def device(self) -> torch.device:
        return self._device

    def to(self, device: torch.device | str) -> Pairs:
        return self if self._device.type == "meta" else Pairs(self.pairs, self.nominal, self.buckets, device)

    def take(self, rows: torch.Tensor) -> Pairs:
        return Pairs([self.pairs[row] for row in rows.tolist()], self.nominal, self.buckets, self._device)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x and y of the given rows (n,), padded to the longest of them."""
        longest = int(self.lengths[rows].max())
        x = np.full((len(rows), 2, longest), PAD)
        y = np.full((len(rows), longest), IGNORED)
        for place, row in enumerate(rows.tolist()):
            source, target = self.pairs[row]
            x[place, 0, : len(source) + 1] = *source, EOS
            x[place, 1, : len(target) + 1] = BOS, *target
            y[place, : len(target) + 1] = *target, EOS
        inputs, labels = torch.from_numpy(x.reshape(len(rows), -1)), torch.from_numpy(y.reshape(-1))
        return move_tensor(inputs, self._device), move_tensor(labels, self._device)


class Videos(Sequences):
    """Videos with their features: x (n, longest, features) float32, padded with zeros at the front; y (n,) classes.

    source: computes a video's features when it is drawn; None on the meta device, where there are only shapes.
    """

    kind: ClassVar[str] = "sequences"
    y: torch.Tensor

    def __init__(
        self,
        videos: list[Video],
        source: Source | None,
        frames: Frames,
        width: int,
        nominal: int,
        buckets: int,
        bucketing: str = "count",
        device: torch.device | str = "cpu",
    ):
        self.videos, self.source, self.frames, self.width = videos, source, frames, width
        self.nominal, self.buckets, self.bucketing = nominal, buckets, bucketing
        self.lengths = torch.tensor([frames.count(video.frames) for video in videos])
        self.y = torch.tensor([video.label for video in videos], device="meta" if source is None else device)
        self.prefetch = PrefetchQueue(lambda rows: reader_threads().submit(self._read, rows))

    def _with(self, videos: list[Video], device: torch.device | str) -> Videos:
        return Videos(videos, self.source, self.frames, self.width, self.nominal, self.buckets, self.bucketing, device)

    def to(self, device: torch.device | str) -> Videos:
        return self if self.source is None else self._with(self.videos, device)

    def take(self, rows: torch.Tensor) -> Videos:
        return self._with([self.videos[row] for row in rows.tolist()], self.device)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The features and classes of the given rows (n,), padded to the longest of them."""
        if self.source is None:
            longest = int(self.lengths[rows].max())
            return torch.empty(len(rows), longest, self.width, device="meta"), self.y[: len(rows)]
        x = self.prefetch.take(tuple(rows.tolist())).result()
        return move_tensor(x, self.device), self.y[move_tensor(rows, self.device)]

    def _read(self, rows: Sequence[int]) -> torch.Tensor:
        """The features of the given rows on the host, in pinned memory for a GPU."""
        source = not_none(self.source)
        longest = int(self.lengths[list(rows)].max())
        x = torch.zeros(len(rows), longest, self.width, pin_memory=self.device.type == "cuda")
        for place, row in enumerate(rows):
            features = torch.from_numpy(source(self.videos[row]))
            x[place, longest - len(features) :] = features
        return x

    @property
    def lookahead(self) -> int:
        return AHEAD if self.device.type == "cuda" else 0

    def ahead(self, rows: torch.Tensor) -> None:
        self.prefetch.start(tuple(rows.tolist()), self.lookahead)
