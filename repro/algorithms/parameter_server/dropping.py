"""Gradients that are sent in part: gradient dropping (Aji, Heafield, "Sparse Communication", EMNLP 2017).

Their Algorithm 1: add the residual to the gradient, send the elements of largest magnitude, keep the others as the new
residual. 99 % are dropped there.

DEVIATION: one threshold for each message (a server's part of what is pushed at once) in the place of one for the whole
gradient, and found exactly, not from a sample: messages are then of one size, known without reading values.
"""

from __future__ import annotations

import torch

from repro.algorithms.parameter_server.shards import Shards
from repro.fabric.base import Fabric
from repro.fabric.sparse import selection
from repro.fabric.sparse.gradients import Sparse, Wire
from repro.training.clock import Clock


class Dropping:
    """A worker's residual (n,), and what it sends of a gradient; `drop`: the fraction that stays, 0 <= drop < 1."""

    def __init__(self, fabric: Fabric, clock: Clock, shards: Shards, weights: torch.Tensor, drop: float):
        self.fabric, self.clock, self.shards, self.drop = fabric, clock, shards, drop
        self.residual = torch.zeros_like(weights)

    def message(self, gradient: torch.Tensor, server: int, first: int, last: int) -> torch.Tensor:
        """What a server gets of layers `first` to `last` of the gradient (n,): `Wire` of `kept` elements."""
        whole = self.shards.gather(gradient, server, first, last)
        with self.clock.interruption("compress"):
            with self.fabric.compute(self.fabric.costs.seconds("select/exact", 4 * whole.numel()), "host"):
                whole += self.shards.gather(self.residual, server, first, last)
                sparse = selection.select(whole, kept(whole.numel(), self.drop))
                sparse.clear(whole)
                self.shards.scatter(whole, self.residual, server, first, last)
        return Wire(sparse.k).pack(sparse)


def kept(elements: int, drop: float) -> int:
    """How many elements of so many leave: at least one."""
    return max(1, round((1 - drop) * elements))


def empty(elements: int, drop: float, device: torch.device) -> torch.Tensor:
    """A buffer for the message of a stretch of so many elements."""
    return Wire(kept(elements, drop)).empty(device)


def dense(message: torch.Tensor, elements: int, drop: float) -> torch.Tensor:
    """The stretch (elements,) that a message stands for, 0 where it has nothing."""
    sparse: Sparse = Wire(kept(elements, drop)).unpack(message)
    vector = torch.zeros(elements, device=message.device)
    sparse.add_to(vector)
    return vector
