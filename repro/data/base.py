"""Loaded data sets and their splits.

`Split` has all samples in memory. `repro.data.readers` has splits that decode images or compute vectors when they are
drawn (`lazy.LazySplit`, `hyperplane_points.HyperplanePoints`), of text (`text.Text`), of sequences of different lengths
(`sequences.Sequences`) and of clips with captions (`captioned.Captioned`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from repro.core.errors import InputError
from repro.data.minibatches import Batches, Minibatches, seeded_order

TASKS = ("classification", "text", "regression")
# the kinds of inputs; a model takes one of them
KINDS = ("images", "text", "vectors", "sequences", "sentence pairs", "captioned clips")
WORD_KINDS = ("text", "sentence pairs")  # the kinds whose values are word numbers

# The most samples and values in a piece of `in_order`, so that activations of large images take about a gigabyte.
EVALUATION_BATCH = 1000
EVALUATION_VALUES = 2**24


def move_tensor(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """The tensor on `device`. A copy to a GPU is asynchronous, so that the host does not wait for earlier kernels."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class AnySplit(ABC):
    """A training or test set.

    y   the targets: classes (N,) int64, or values (N,) float32 of a regression
    """

    if TYPE_CHECKING:  # a field or a property of each split

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
        """The options of random augmentation, for the record of a run; empty without."""
        return {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def to(self, device: torch.device | str) -> AnySplit:
        """This split with its minibatches on `device`."""

    @abstractmethod
    def subset(self, samples: int, seed: int = 0) -> AnySplit:
        """`samples` random samples (at most all) in their original order; the choice depends on `seed` alone."""

    @abstractmethod
    def iterations(self, batch: int) -> int:
        """Iterations of an epoch with `batch` samples each."""

    @abstractmethod
    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Minibatches:
        """Minibatches of `size` samples, one for each iteration and worker of an epoch."""

    @abstractmethod
    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every sample once, in pieces (x, y) for one forward pass each: piece `first` and every `step`-th after it."""


class Samples(AnySplit):
    """A split of independent samples, from which minibatches are drawn at random."""

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
        """The number of minibatches to prefetch with `ahead`."""
        return 0

    def ahead(self, rows: torch.Tensor) -> None:
        """Start to read the minibatch of these rows (n,), which will probably be drawn soon."""

    def draw(self, rows: torch.Tensor, epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        """A training minibatch: like `select`, with random augmentation that depends only on the rows and on `epoch`, a
        text of the run's seed and the epoch's number."""
        return self.select(rows)

    def subset(self, samples: int, seed: int = 0) -> Samples:
        return Subset(self, choose_rows(len(self), samples, seed))

    def iterations(self, batch: int) -> int:
        return len(self) // batch

    def minibatches(self, size: int, workers: int, seed: int, device: torch.device | str | None = None) -> Minibatches:
        return Batches(self, size, seed, self.iterations(size * workers) * workers, device)

    def in_order(self, first: int = 0, step: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        batch = max(1, min(EVALUATION_BATCH, EVALUATION_VALUES // math.prod(self.slice(0, 1)[0].shape)))
        for start in range(first * batch, len(self), step * batch):
            yield self.slice(start, start + batch)


def choose_rows(count: int, samples: int, seed: int) -> torch.Tensor:
    """`samples` random rows of `count` (at most all), in order: (n,) int64 on the CPU."""
    return seeded_order(count, f"subset/{seed}")[:samples].sort().values


@dataclass(frozen=True)
class View(Samples):
    """A split with the samples of another one; subclasses change some properties."""

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

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.select(rows)

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.slice(start, stop)

    def draw(self, rows: torch.Tensor, epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.whole.draw(rows, epoch)


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
    """Samples in memory: x of shape (N, *input_shape), labels y int64 of shape (N,).

    x is normalised float32; or uint8, in a quarter of the memory, from which each draw computes (x - mean) / deviation
    with float32 (C, 1, 1) in the units of x.
    """

    x: torch.Tensor
    y: torch.Tensor
    mean: torch.Tensor | None = None
    deviation: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device | str) -> Split:
        """This split on `device`; a split on "meta" has only shapes and stays there."""
        if self.x.is_meta:
            return self
        mean, deviation = (
            channels if channels is None else channels.to(device) for channels in (self.mean, self.deviation)
        )
        return Split(self.x.to(device), self.y.to(device), mean, deviation)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = move_tensor(rows, self.x.device)
        return self._normalised(self.x.index_select(0, rows)), self.y.index_select(0, rows)

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._normalised(self.x[start:stop]), self.y[start:stop]

    def _normalised(self, x: torch.Tensor) -> torch.Tensor:
        if self.mean is None or self.deviation is None:
            return x
        return x.to(torch.float32).sub_(self.mean).div_(self.deviation)


@dataclass(frozen=True)
class Dataset:
    """A loaded data set. `name` and `standin` are in every record, so that a stand-in is never mistaken for the real
    data; `checksum` (SHA-256 of the raw files or of the stand-in's arrays) is in the run's key.

    classes      the width of the model's output: classes, words of a text, or 1 for a regression
    input_shape  the shape of a sample; if lengths differ, of one of nominal length (see `Minibatches.work`)
    like_real    whether a stand-in has the real data's classes and shape, so that a model on it has the real one's size
    """

    name: str
    standin: bool
    checksum: str
    train: AnySplit
    test: AnySplit
    _: KW_ONLY
    classes: int
    input_shape: tuple[int, ...]
    like_real: bool = True

    @property
    def task(self) -> str:
        """One of TASKS; "text" has a label for each word."""
        return self.train.task

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return self.train.kind

    def facts(self) -> dict[str, Any]:
        """The data set's entries in a run's record (`repro.records.record.Data`)."""
        return {
            "name": self.name,
            "standin": self.standin,
            "checksum": self.checksum,
            "train": len(self.train),
            "test": len(self.test),
            "classes": self.classes,
            "input_shape": list(self.input_shape),
            "like_real": self.like_real,
        }

    def iterations(self, batch: int) -> int:
        """Iterations of an epoch with a global batch size; InputError if the data set is too small for one."""
        if iterations := self.train.iterations(batch):
            return iterations
        if self.kind == "text":
            length, least = len(self.train) // batch, self.input_shape[0]
            raise InputError(
                f"batch={batch}: as many streams of {self.name} have {length} words each, fewer than the {least} of a "
                "sequence (dataset.bptt)"
            )
        raise InputError(f"batch={batch}: more than the {len(self.train)} training samples of {self.name}")
