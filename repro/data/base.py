"""What a loaded data set is, and how ranks draw minibatches from it.

A split is anything with `len`, `y`, `to(device)`, `select(rows)` and `slice(start, stop)`: `Split` here, with all
samples in memory, or `LazySplit` (repro.data.lazy), which decodes images when they are drawn.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch

from repro.errors import InputError


@dataclass(frozen=True)
class Split:
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
        tensors = (self.x, self.y, self.mean, self.deviation)
        return Split(*(tensor if tensor is None else tensor.to(device) for tensor in tensors))

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised samples (n, *input_shape) and labels (n,) of the given rows (n,), on the split's device."""
        return self._normalised(self.x.index_select(0, rows)), self.y.index_select(0, rows)

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same of rows start to stop - 1."""
        return self._normalised(self.x[start:stop]), self.y[start:stop]

    def _normalised(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.mean is None else x.to(torch.float32).sub_(self.mean).div_(self.deviation)


@dataclass(frozen=True)
class Dataset:
    """A loaded data set. `name` and `standin` go into every result, so that a stand-in is never taken for the real one;
    `checksum` (sha256, of the raw files or of the stand-in's arrays) goes into the cell's key."""

    name: str
    standin: bool
    checksum: str
    train: Split
    test: Split
    classes: int
    input_shape: tuple[int, ...]


class Batches:
    """Random access to minibatches by their global id: `batches[minibatch_id] -> (x, y)`.

    Ids count 0, 1, 2, ... over all epochs and all workers: epoch e holds the ids e * per_epoch up to, not including,
    (e + 1) * per_epoch. An epoch's order is a permutation drawn from (seed, epoch) alone, cut into slices of `size`:
    the minibatches of an epoch are disjoint, an id means the same samples on every rank, for every number of workers
    and after every resume, and nothing has to be saved. Samples beyond size * per_epoch are left out of that epoch.
    """

    def __init__(self, split: Split, size: int, seed: int, per_epoch: int | None = None,
                 device: torch.device | str | None = None) -> None:
        """`size`: samples a minibatch; `per_epoch`: minibatches an epoch, by default all full ones; `device`: where
        the split is kept and the minibatches come from, by default where it is."""
        if size < 1:
            raise InputError(f"a minibatch needs at least one sample, not {size}")
        full = len(split) // size
        per_epoch = full if per_epoch is None else per_epoch
        if not 1 <= per_epoch <= full:
            raise InputError(f"{per_epoch} minibatches of {size} an epoch: {len(split)} samples give 1 to {full}")
        self.split = split if device is None else split.to(device)
        self.size, self.seed, self.per_epoch = size, seed, per_epoch
        self._orders: dict[int, torch.Tensor] = {}

    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """x (size, *input_shape) and y (size,) of one minibatch; ids below 0 raise IndexError."""
        rows = self.indices(minibatch_id)
        return self.split.select(rows)

    def indices(self, minibatch_id: int) -> torch.Tensor:
        """The minibatch's sample numbers in the split, shape (size,), on the split's device."""
        if minibatch_id < 0:
            raise IndexError(f"minibatch id {minibatch_id} is below 0")
        epoch, slot = divmod(minibatch_id, self.per_epoch)
        return self._order(epoch)[slot * self.size : (slot + 1) * self.size]

    def _order(self, epoch: int) -> torch.Tensor:
        """The permutation of one epoch, shape (len(split),); the last two asked for are kept."""
        order = self._orders.get(epoch)
        if order is None:
            digest = hashlib.sha256(f"{self.seed}/{epoch}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
            order = torch.randperm(len(self.split), generator=generator).to(self.split.y.device)
            # A new dictionary, never one changed in place: pipeline threads may be reading the old one.
            self._orders = dict([*self._orders.items(), (epoch, order)][-2:])
        return order
