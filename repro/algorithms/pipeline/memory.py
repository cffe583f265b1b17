"""Measures the memory that autograd keeps for a backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch


@dataclass
class Saved:
    """The distinct storages that autograd keeps for a backward pass, without those of the weights."""

    storages: dict[int, torch.UntypedStorage] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(storage.nbytes() for storage in self.storages.values())


@contextmanager
def count_saved(weights: Iterable[torch.Tensor]) -> Iterator[Saved]:
    """A context that collects what its forward passes keep besides the weights; also on the meta device."""
    saved = Saved()
    storages = {
        weight.untyped_storage()._cdata for weight in weights
    }  # identifies the storage, also on the meta device

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            saved.storages[storage._cdata] = storage  # a reference, so that its address is not reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved
