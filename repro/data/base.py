"""Data sets in memory, and how ranks draw minibatches from them.

A split has `len`, `y` and `to(device)`; it says what is learned (`task`) from which `kind` of inputs, how minibatches
are laid out in it (`iterations(batch)`, `minibatches(...)`), how an evaluation goes through it (`in_order()`) and what
a part of it is (`subset(samples)`). There are `Split` here, with all samples in memory, `LazySplit`
(repro.data.readers.lazy), which decodes images when they are drawn, `Text` (repro.data.readers.text),
`HyperplanePoints` (repro.data.readers.hyperplane_points), which makes vectors when they are drawn, `Sequences` of
different lengths (repro.data.readers.sequences), and `Captioned` clips (repro.data.readers.captioned).
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING

import torch

from repro.core.errors import InputError

TASKS = ("classification", "text", "regression")
# kinds of inputs, which decide what models fit
KINDS = ("images", "text", "vectors", "sequences", "sentence pairs", "captioned clips")

# samples of a piece of `in_order`; fewer for large images, so that their activations take about a gigabyte at most
EVALUATION_BATCH = 1000
EVALUATION_VALUES = 2**24


def moved(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """The tensor on `device`. The copy to a GPU is asynchronous, so that the host does not wait for earlier kernels."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class Minibatches(ABC):
    """Minibatches by their global id, which counts from 0 over all epochs and all workers.

    size       samples (for text: sequences) of a minibatch
    per_epoch  minibatches of an epoch: epoch e has the ids from e * per_epoch to (e + 1) * per_epoch - 1
    """

    size: int
    per_epoch: int

    @abstractmethod
    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x, with `size` samples along its first dimension, and y."""

    def begins(self, minibatch_id: int) -> bool:
        """Whether a minibatch is independent of the previous one of its worker."""
        return True

    def work(self, minibatch_id: int) -> float:
        """The computation of a minibatch, relative to one whose samples have the data set's `input_shape`."""
        return 1.0


class Shuffled(Minibatches):
    """Random access to shuffled minibatches by their global id: `batches[minibatch_id] -> (x, y)`.

    Everything is drawn from (seed, epoch) alone: the minibatches of an epoch are disjoint, an id means the same samples
    on every rank and after every resume, and nothing has to be saved.
    """

    split: Samples
    _last = _step = 0  # the id that was drawn last, and its distance from the one before

    def __init__(
        self,
        split: Samples,
        size: int,
        seed: int,
        per_epoch: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        """size: samples of a minibatch; per_epoch: minibatches of an epoch, by default all full ones; device: where the
        minibatches come from, by default where the split is. InputError if the split is too small."""
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
        drawn = self.split.draw(rows, f"{self.seed}/{minibatch_id // self.per_epoch}")
        self.prefetch_next(minibatch_id)
        return drawn

    def indices(self, minibatch_id: int) -> torch.Tensor:
        """The minibatch's rows in the split, shape (size,), on the host: reading them does not wait for a GPU."""
        if minibatch_id < 0:
            raise IndexError(f"minibatch id {minibatch_id} is below 0")
        epoch, slot = divmod(minibatch_id, self.per_epoch)
        return self._epoch(epoch)[slot]

    def prefetch_next(self, minibatch_id: int) -> None:
        """Start reading the next minibatches if ids advance in equal steps, as those of a data-parallel rank do. What a
        minibatch contains does not depend on it."""
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
            # A new dictionary, never one changed in place: pipeline threads may be reading the old one.
            self._epochs = dict([*self._epochs.items(), (epoch, rows)][-2:])
        return rows

    @abstractmethod
    def _shuffle(self, text: str) -> torch.Tensor:
        """The rows (full, size) of an epoch, drawn from a text that names seed and epoch."""


class AnySplit(ABC):
    """A training or test set.

    y   the targets: classes (N,) int64, or values (N,) float32 of a regression
    """

    if TYPE_CHECKING:  # each split has it as a field or as a property

        @property
        def y(self) -> torch.Tensor: ...

    @property
    def task(self) -> str:
        """One of TASKS."""
        return "classification"

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return "images"

    @property
    def changes(self) -> dict[str, object]:
        """The random augmentation of minibatches, for the record of a run; empty: none."""
        return {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def to(self, device: torch.device | str) -> AnySplit:
        """This split with its minibatches on `device`."""

    @abstractmethod
    def subset(self, samples: int, seed: int = 0) -> AnySplit:
        """`samples` of the samples (at most all), drawn from `seed` alone, in their order."""

    @abstractmethod
    def iterations(self, batch: int) -> int:
        """Iterations of an epoch with `batch` samples each."""

    @abstractmethod
    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Minibatches:
        """Minibatches of `size` samples; an epoch has one for each iteration and worker."""

    @abstractmethod
    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every sample once, as (x, y) pieces that a forward pass can take: the `first` piece and every `step`-th after
        it."""


class Samples(AnySplit):
    """A split of independent samples: minibatches are drawn at random."""

    @property
    def device(self) -> torch.device:
        """The device of the minibatches."""
        return self.y.device

    @abstractmethod
    def to(self, device: torch.device | str) -> Samples: ...

    @abstractmethod
    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised samples (n, *input_shape) and labels (n,) of the rows from start to stop - 1."""

    @abstractmethod
    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised samples and labels of the given rows (n,), which are on the host."""

    @property
    def lookahead(self) -> int:
        """The number of minibatches to prefetch with `ahead`; 0: none."""
        return 0

    def ahead(self, rows: torch.Tensor) -> None:
        """Start reading the minibatch of these rows (n,), which will probably be drawn soon."""

    def draw(self, rows: torch.Tensor, epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        """A training minibatch: as `select`, with random augmentation that depends on the row and on `epoch` alone, a
        text that names the run's seed and the epoch."""
        return self.select(rows)

    def subset(self, samples: int, seed: int = 0) -> Samples:
        return Subset(self, chosen(len(self), samples, seed))

    def iterations(self, batch: int) -> int:
        return len(self) // batch

    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Minibatches:
        return Batches(self, size, seed, self.iterations(size * workers) * workers, device)

    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        batch = max(1, min(EVALUATION_BATCH, EVALUATION_VALUES // math.prod(self.slice(0, 1)[0].shape)))
        for start in range(first * batch, len(self), step * batch):
            yield self.slice(start, start + batch)


def chosen(count: int, samples: int, seed: int) -> torch.Tensor:
    """`samples` of `count` rows (at most all), in order: (n,) int64 on the CPU."""
    return seeded_order(count, f"subset/{seed}")[:samples].sort().values


def seeded_order(count: int, text: str) -> torch.Tensor:
    """A permutation (count,) that depends on the text alone."""
    return torch.randperm(count, generator=seeded(text))


def seeded(text: str) -> torch.Generator:
    """A generator on the CPU whose stream depends on the text alone."""
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1)


@dataclass(frozen=True)
class View(Samples):
    """A split that shows the samples of another one."""

    whole: Samples

    @property
    def task(self) -> str:
        return self.whole.task

    @property
    def kind(self) -> str:
        return self.whole.kind

    @property
    def y(self) -> torch.Tensor:
        return self.whole.y

    @property
    def device(self) -> torch.device:
        return self.whole.device

    @property
    def lookahead(self) -> int:
        return self.whole.lookahead

    def __len__(self) -> int:
        return len(self.whole)

    def to(self, device: torch.device | str) -> View:
        return replace(self, whole=self.whole.to(device))

    def ahead(self, rows: torch.Tensor) -> None:
        self.whole.ahead(rows)


@dataclass(frozen=True)
class Subset(View):
    """The given rows (n,) of a split."""

    rows: torch.Tensor

    @property
    def y(self) -> torch.Tensor:
        return self.whole.y[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.select(self.rows[rows])

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.select(self.rows[start:stop])

    def ahead(self, rows: torch.Tensor) -> None:
        self.whole.ahead(self.rows[rows])

    def draw(self, rows: torch.Tensor, epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.draw(self.rows[rows], epoch)


@dataclass(frozen=True)
class Split(Samples):
    """Samples and labels in memory: x of shape (N, *input_shape), y int64 of shape (N,).

    x is float32 and normalised, or uint8, which takes a quarter of the memory and becomes (x - mean) / deviation when
    it is drawn; mean and deviation are float32 (C, 1, 1) in the units of x.
    """

    x: torch.Tensor
    y: torch.Tensor
    mean: torch.Tensor | None = None
    deviation: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device | str) -> Split:
        """This split on `device`; "meta" keeps the shapes only and cannot be undone."""
        if self.x.is_meta:
            return self
        mean, deviation = (one if one is None else one.to(device) for one in (self.mean, self.deviation))
        return Split(self.x.to(device), self.y.to(device), mean, deviation)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised samples (n, *input_shape) and labels (n,) of the given rows (n,), on the split's device."""
        rows = moved(rows, self.x.device)
        return self._normalised(self.x.index_select(0, rows)), self.y.index_select(0, rows)

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised samples and labels of the rows from start to stop - 1."""
        return self._normalised(self.x[start:stop]), self.y[start:stop]

    def _normalised(self, x: torch.Tensor) -> torch.Tensor:
        if self.mean is None or self.deviation is None:
            return x
        return x.to(torch.float32).sub_(self.mean).div_(self.deviation)


@dataclass(frozen=True)
class Dataset:
    """A loaded data set. `name` and `standin` go into every record, so that a stand-in is never taken for the real
    data; `checksum` (SHA-256 of the raw files or of the stand-in's arrays) goes into the run's key.

    classes      the width of the model's output: classes, words of a text, or 1 for a regression
    input_shape  the shape of a sample; if lengths differ, of one of nominal length (see `Minibatches.work`)
    """

    name: str
    standin: bool
    checksum: str
    train: AnySplit
    test: AnySplit
    _: KW_ONLY
    classes: int
    input_shape: tuple[int, ...]

    @property
    def task(self) -> str:
        """One of TASKS; "text" has a label for each word."""
        return self.train.task

    @property
    def kind(self) -> str:
        """The kind of inputs: one of KINDS."""
        return self.train.kind

    def iterations(self, batch: int) -> int:
        """Iterations of an epoch with a global batch size; InputError if the data set is too small for one."""
        if found := self.train.iterations(batch):
            return found
        if self.kind == "text":
            length, least = len(self.train) // batch, self.input_shape[0]
            raise InputError(
                f"batch={batch}: as many streams of {self.name} have {length} words each, fewer than the "
                f"{least} of a sequence (dataset.bptt)"
            )
        raise InputError(f"batch={batch}: more than the {len(self.train)} training samples of {self.name}")


class Batches(Shuffled):
    """Minibatches that are slices of a permutation of all samples.

    An id means the same samples for every number of workers, too. Samples that fill no minibatch are left out of an
    epoch.
    """

    def _shuffle(self, text: str) -> torch.Tensor:
        return seeded_order(len(self.split), text)[: self.full * self.size].view(self.full, self.size)
