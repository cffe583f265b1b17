"""The memory of a stage: what autograd keeps of a forward pass, counted as it keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch


@dataclass
class Kept:
    """The storages that autograd keeps for a backward pass, each once; the weights' own do not count."""

    storages: dict[int, torch.UntypedStorage] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(storage.nbytes() for storage in self.storages.values())


@contextmanager
def counted(weights: Iterable[torch.Tensor]) -> Iterator[Kept]:
    """Count what forward passes inside keep besides the weights; on the meta device too, where storages are empty."""
    kept = Kept()
    own = {weight.untyped_storage()._cdata for weight in weights}  # the address of the storage, not of its contents

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept.storages[storage._cdata] = storage  # held, so that no other comes to stand at its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept
