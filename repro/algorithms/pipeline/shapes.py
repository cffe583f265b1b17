"""The shapes of blocks' outputs and the memory of their passes: what autograd keeps for the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import nn
from torch.func import functional_call

from repro.algorithms.pipeline.messages import Shape
from repro.core.errors import InputError


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


def output_shapes(blocks: Sequence[nn.Module], x: torch.Tensor) -> list[Shape]:
    """The shape of each block's output for inputs like x (N, ...), and what autograd keeps of its forward pass.

    InputError if an output is no tensor of floats. The blocks stay unchanged: they run with substitute weights and
    buffers on the meta device.
    """
    activation = torch.empty_like(x, device="meta")
    shapes = []
    for number, block in enumerate(blocks):
        weights = {name: torch.empty_like(p, device="meta").requires_grad_(p.requires_grad)
                   for name, p in block.named_parameters()}  # fmt: skip
        buffers = ((name, torch.empty_like(buffer, device="meta")) for name, buffer in block.named_buffers())
        activation = activation.detach()
        if activation.is_floating_point():
            activation.requires_grad_()
        with torch.enable_grad(), count_saved(weights.values()) as saved:
            activation = functional_call(block, dict(chain(weights.items(), buffers)), (activation,))
        if not isinstance(activation, torch.Tensor) or not activation.is_floating_point():
            what = type(activation).__name__ if not isinstance(activation, torch.Tensor) else activation.dtype
            raise InputError(
                f"block {number} of the model returns {what}: a pipeline needs one tensor of floats between blocks"
            )
        shapes.append(Shape(tuple(activation.shape), activation.dtype, saved.nbytes))
    return shapes
