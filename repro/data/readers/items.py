"""Splits of a torch Dataset, whose samples are read when they are drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from repro.core.errors import InputError
from repro.data.base import Samples, View, move_tensor
from repro.data.minibatches import seeded_generator


@dataclass(frozen=True)
class Items(Samples):
    """The items (x, y) of a Dataset.

    Random transforms that use torch's generator depend on epoch and row; in evaluations, and when labels are read, on
    the row alone.
    """

    items: Any
    y: torch.Tensor
    place: torch.device | str = "cpu"

    @property
    def device(self) -> torch.device:
        return torch.device(self.place)

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device | str) -> Items:
        return replace(self, place=device)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._read(rows.tolist(), "")

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._read(range(start, min(stop, len(self))), "")

    def draw(self, rows: torch.Tensor, epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self._read(rows.tolist(), epoch)

    def _read(self, rows: Sequence[int], epoch: str) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.stack(
            [normalise_inputs(as_tensor(read_sample(self.items, row, epoch)[0], f"sample {row}")) for row in rows]
        )
        y = torch.stack([self.y[row] for row in rows])
        return move_tensor(x, self.place), move_tensor(y, self.place)


@dataclass(frozen=True)
class Typed(View):
    """A split with another task and kind."""

    of_task: str
    of_kind: str

    @property
    def task(self) -> str:
        return self.of_task

    @property
    def kind(self) -> str:
        return self.of_kind


def read_sample(items: Any, row: int, epoch: str, what: str = "") -> tuple[Any, Any]:
    """One item (x, y); InputError if it is no pair. what: the data set and its part, for the error."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeded_generator(f"{epoch}/{row}").initial_seed())
        item = items[row]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InputError(f"{what and f'{what}, '}sample {row}: must be a pair (x, y), not {_kind(item)}")
    return item[0], item[1]


def as_tensor(value: Any, what: str) -> torch.Tensor:
    """A number, array or tensor as a tensor; InputError for other values."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, bool | int | float | np.ndarray | np.generic):
        return torch.as_tensor(value)
    raise InputError(f"{what}: must be a tensor, an array or a number, not {_kind(value)}")


def _kind(value: Any) -> str:
    """A wrong value's type, for an error; for one of several parts, the section of the documentation that helps."""
    kind = type(value).__name__
    if not isinstance(value, tuple | list | dict):
        return f"a value of type {kind}"
    return f"a {kind} of {len(value)}{'; docs/model.md: several inputs' * (len(value) > 1)}"


def normalise_inputs(x: torch.Tensor) -> torch.Tensor:
    """Inputs for a model: bytes scaled to 0 .. 1, other integers as int64, floating-point numbers as float32."""
    if x.dtype == torch.uint8:
        return x.float().div_(255)
    return x.float() if x.is_floating_point() else x.long()


def check_labels(y: torch.Tensor, what: str) -> torch.Tensor:
    """Classes as int64, or values as float32, of shape (N,); InputError for other shapes and classes below 0."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(f"{what}: y has shape {tuple(y.shape)}; must be (N,): a class or a value for each sample")
    if y.is_floating_point():
        return y.float()
    if len(y) and int(y.min()) < 0:
        raise InputError(f"{what}: y has class {int(y.min())}; must be 0 or more")
    return y.long()


def read_items(items: Any, what: str) -> tuple[Items, torch.Tensor, str]:
    """The split of a Dataset, its first sample, and a checksum over all samples, which are read once."""
    if not hasattr(items, "__getitem__") or not hasattr(items, "__len__"):
        raise InputError(f"{what}: must be a Dataset with __getitem__ and __len__, not {type(items).__name__}")
    if not len(items):
        raise InputError(f"{what}: has no samples")
    digest, targets, first = hashlib.sha256(), [], None
    for row in range(len(items)):
        sample = zip("xy", read_sample(items, row, "", what))
        x, y = (as_tensor(each, f"{what}, sample {row}: {name}").cpu() for name, each in sample)
        first = first or (x.shape, y.shape)
        for name, shape, needed in zip("xy", (x.shape, y.shape), first):
            if shape != needed:
                raise InputError(
                    f"{what}, sample {row}: {name} has shape {tuple(shape)}; must be {tuple(needed)}, as sample 0 has"
                )
        digest.update(f"{x.dtype} {tuple(x.shape)}".encode())
        digest.update(x.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b"")
        targets.append(y)
    y = check_labels(torch.stack(targets), what)
    digest.update(y.numpy().tobytes())
    return Items(items, y), normalise_inputs(as_tensor(read_sample(items, 0, "")[0], what)), digest.hexdigest()
