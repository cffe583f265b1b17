"""What a loaded data set is, and how ranks draw minibatches from it.

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
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import torch

from repro.core.errors import InputError

TASKS = ("classification", "text", "regression")
# of a minibatch's x: what a model has to take
KINDS = ("images", "text", "vectors", "sequences", "sentence pairs", "captioned clips")

# samples of a piece of `in_order`; of large images fewer, so that their activations take no more than about a gigabyte
EVALUATION_BATCH = 1000
EVALUATION_VALUES = 2**24


def moved(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """A host tensor on `device`, itself where that is the host. On a GPU the copy comes in its turn: the host would
    else wait, every minibatch, until the GPU has done all that it was asked for before."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class Minibatches(ABC):
    """Minibatches by their global id. Ids count 0, 1, 2, ... over all epochs and all workers.

    size       samples (for text: sequences) of each
    per_epoch  minibatches of an epoch: epoch e holds the ids e * per_epoch up to, not including, (e + 1) * per_epoch
    """

    size: int
    per_epoch: int

    @abstractmethod
    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x and y, size samples along the first dimension of x."""

    def begins(self, minibatch_id: int) -> bool:
        """Whether a minibatch has nothing to do with the one that its worker had before."""
        return True

    def work(self, minibatch_id: int) -> float:
        """The computation of a minibatch, as a multiple of one whose samples have the data set's `input_shape`."""
        return 1.0


class Shuffled(Minibatches):
    """Minibatches of samples that an epoch's order gives by their numbers in the split."""

    split: Samples
    _last = _step = 0  # the id that was drawn last, and how far it is from the one before

    @abstractmethod
    def indices(self, minibatch_id: int) -> torch.Tensor:
        """The minibatch's sample numbers in the split, shape (size,), on the host: who reads them does not wait."""

    def begin_next(self, minibatch_id: int) -> None:
        """Where ids come in equal steps, as those of a data-parallel rank do, begin the next ones: what a minibatch
        holds does not depend on it."""
        step, before = minibatch_id - self._last, self._step
        self._last, self._step = minibatch_id, step
        if step == before > 0:
            for place in range(1, self.split.lookahead + 1):
                self.split.ahead(self.indices(minibatch_id + place * step))


class AnySplit(ABC):
    """What every split has, whatever is in it.

    y   what is to be learned of each sample: classes (N,) int64, or of a regression values (N,) float32
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
        """What is done at random to the samples of minibatches; empty: nothing."""
        return {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def to(self, device: torch.device | str) -> AnySplit:
        """The same, its minibatches on `device`."""

    @abstractmethod
    def subset(self, samples: int, seed: int = 0) -> AnySplit:
        """So many samples (all, where there are no more) drawn from `seed` alone: always the same ones, in order."""

    @abstractmethod
    def iterations(self, batch: int) -> int:
        """Iterations an epoch, of `batch` samples each."""

    @abstractmethod
    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Minibatches:
        """Of `size` samples for each of the workers, as many an epoch as there are iterations times workers."""

    @abstractmethod
    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every sample once, as (x, y), in pieces that a forward pass can take; of these the `first`, and from it on
        each `step`-th."""


class Samples(AnySplit):
    """A split whose samples have nothing to do with each other: minibatches are drawn at random."""

    @property
    def device(self) -> torch.device:
        """Where minibatches come from."""
        return self.y.device

    @abstractmethod
    def to(self, device: torch.device | str) -> Samples: ...

    @abstractmethod
    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised samples (n, *input_shape) and labels (n,) of rows start to stop - 1."""

    @abstractmethod
    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The same of the given rows (n,), which are on the host."""

    @property
    def lookahead(self) -> int:
        """Minibatches that are begun before they are drawn, by `ahead`; 0: none."""
        return 0

    def ahead(self, rows: torch.Tensor) -> None:
        """Begin what takes long of a minibatch of these rows (n,), which is likely to be drawn soon."""

    def draw(self, rows: torch.Tensor, epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        """The same for a training minibatch of an epoch, a text that names the run's seed too: what is random of a
        sample depends on it and the row alone."""
        return self.select(rows)

    def subset(self, samples: int, seed: int = 0) -> Samples:
        return Some(self, chosen(len(self), samples, seed))

    def iterations(self, batch: int) -> int:
        return len(self) // batch

    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Minibatches:
        return Batches(self, size, seed, self.iterations(size * workers) * workers, device)

    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        batch = max(1, min(EVALUATION_BATCH, EVALUATION_VALUES // math.prod(self.slice(0, 1)[0].shape)))
        for start in range(first * batch, len(self), step * batch):
            yield self.slice(start, start + batch)


def chosen(count: int, samples: int, seed: int) -> torch.Tensor:
    """So many of `count` rows, at most all, in order: (n,) int64 on the CPU."""
    return seeded_order(count, f"subset/{seed}")[:samples].sort().values


def seeded_order(count: int, text: str) -> torch.Tensor:
    """A permutation (count,) that depends on the text alone."""
    return torch.randperm(count, generator=seeded(text))


def seeded(text: str) -> torch.Generator:
    """A generator on the CPU whose stream depends on the text alone."""
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1)


@dataclass(frozen=True)
class Some(Samples):
    """The given rows (n,) of a split."""

    whole: Samples
    rows: torch.Tensor

    @property
    def task(self) -> str:
        return self.whole.task

    @property
    def kind(self) -> str:
        return self.whole.kind

    @property
    def y(self) -> torch.Tensor:
        return self.whole.y[self.rows]

    @property
    def device(self) -> torch.device:
        return self.whole.device

    def __len__(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device | str) -> Some:
        return Some(self.whole.to(device), self.rows)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.select(self.rows[rows])

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.select(self.rows[start:stop])

    @property
    def lookahead(self) -> int:
        return self.whole.lookahead

    def ahead(self, rows: torch.Tensor) -> None:
        self.whole.ahead(self.rows[rows])

    def draw(self, rows: torch.Tensor, epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.draw(self.rows[rows.cpu()].to(rows.device), epoch)


@dataclass(frozen=True)
class Split(Samples):
    """Samples and labels in memory: x of shape (N, *input_shape), y int64 of shape (N,).

    x is float32 and normalised; or uint8, a quarter of the memory, and then becomes (x - mean) / deviation when drawn,
    mean and deviation float32 of shape (C, 1, 1) in the units of x.
    """

    x: torch.Tensor
    y: torch.Tensor
    mean: torch.Tensor | None = None
    deviation: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device | str) -> Split:
        """The same on `device` (itself where it is there already; "meta" keeps shapes only, and stays so)."""
        if self.x.is_meta:
            return self
        mean, deviation = (one if one is None else one.to(device) for one in (self.mean, self.deviation))
        return Split(self.x.to(device), self.y.to(device), mean, deviation)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised samples (n, *input_shape) and labels (n,) of the given rows (n,), on the split's device."""
        rows = moved(rows, self.x.device)
        return self._normalised(self.x.index_select(0, rows)), self.y.index_select(0, rows)

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same of rows start to stop - 1."""
        return self._normalised(self.x[start:stop]), self.y[start:stop]

    def _normalised(self, x: torch.Tensor) -> torch.Tensor:
        if self.mean is None or self.deviation is None:
            return x
        return x.to(torch.float32).sub_(self.mean).div_(self.deviation)


@dataclass(frozen=True)
class Dataset:
    """A loaded data set. `name` and `standin` go into every result, so that a stand-in is never taken for the real one;
    `checksum` (sha256, of the raw files or of the stand-in's arrays) goes into the run's key.

    classes      classes, of text words; of a regression 1: the width of the model's output
    input_shape  of a sample; where lengths differ, of one of nominal length (see `Minibatches.work`)
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
        """classification; text: a label a word; regression."""
        return self.train.task

    @property
    def kind(self) -> str:
        """What a model has to take: one of KINDS."""
        return self.train.kind

    def iterations(self, batch: int) -> int:
        """Iterations an epoch with a global batch; InputError where the data set is too small for one."""
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
    """Random access to minibatches by their global id: `batches[minibatch_id] -> (x, y)`.

    An epoch's order is a permutation drawn from (seed, epoch) alone, cut into slices of `size`:
    the minibatches of an epoch are disjoint, an id means the same samples on every rank, for every number of workers
    and after every resume, and nothing has to be saved. Samples beyond size * per_epoch are left out of that epoch.
    """

    def __init__(
        self,
        split: Samples,
        size: int,
        seed: int,
        per_epoch: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        """`size`: samples a minibatch; `per_epoch`: minibatches an epoch, by default all full ones; `device`: where
        the split is kept and the minibatches come from, by default where it is."""
        if size < 1:
            raise InputError(f"a minibatch needs at least one sample, not {size}")
        full = len(split) // size
        per_epoch = full if per_epoch is None else per_epoch
        if not 1 <= per_epoch <= full:
            raise InputError(f"{per_epoch} minibatches of {size} an epoch: {len(split)} samples give 1 to {full}")
        self.split = split if device is None else split.to(device)
        self.device = self.split.device
        self.size, self.seed, self.per_epoch = size, seed, per_epoch
        self._orders: dict[int, torch.Tensor] = {}

    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x (size, *input_shape) and y (size,) of one minibatch; ids below 0 raise IndexError."""
        rows = self.indices(minibatch_id)
        drawn = self.split.draw(rows, f"{self.seed}/{minibatch_id // self.per_epoch}")
        self.begin_next(minibatch_id)
        return drawn

    def indices(self, minibatch_id: int) -> torch.Tensor:
        if minibatch_id < 0:
            raise IndexError(f"minibatch id {minibatch_id} is below 0")
        epoch, slot = divmod(minibatch_id, self.per_epoch)
        return self._order(epoch)[slot * self.size : (slot + 1) * self.size]

    def _order(self, epoch: int) -> torch.Tensor:
        """The permutation of one epoch, shape (len(split),); the last two asked for are kept."""
        order = self._orders.get(epoch)
        if order is None:
            order = seeded_order(len(self.split), f"{self.seed}/{epoch}")
            # A new dictionary, never one changed in place: pipeline threads may be reading the old one.
            self._orders = dict([*self._orders.items(), (epoch, order)][-2:])
        return order
