"""Gradient dropping (Aji, Heafield, "Sparse Communication", EMNLP 2017).

Their Algorithm 1: add the residual to the gradient, send the elements of largest magnitude, keep the others as the new
residual. They drop 99 %.

DEVIATION: each message (a server's part of a push) has its own threshold, instead of one for the whole gradient, and it
is exact instead of sampled: so messages have a fixed size, which is known without reading values.
"""

from __future__ import annotations

import torch

from repro.algorithms.parameter_server.shards import Shards
from repro.fabric.base import Fabric
from repro.fabric.sparse import selection
from repro.fabric.sparse.gradients import Sparse, Wire
from repro.training.clock import Clock


class Dropping:
    """A worker's residual (n,) and its messages. drop: the fraction of elements that is not sent, 0 <= drop < 1."""

    def __init__(self, fabric: Fabric, clock: Clock, shards: Shards, weights: torch.Tensor, drop: float):
        self.fabric, self.clock, self.shards, self.drop = fabric, clock, shards, drop
        self.residual = torch.zeros_like(weights)

    def message(self, gradient: torch.Tensor, server: int, first: int, last: int) -> torch.Tensor:
        """A server's message with the layers `first` to `last` of the gradient (n,): `Wire` of `kept` elements."""
        whole = self.shards.gather(gradient, server, first, last)
        with self.clock.interruption("compress"):
            with self.fabric.compute(self.fabric.costs.seconds("select/exact", 4 * whole.numel()), "host"):
                whole += self.shards.gather(self.residual, server, first, last)
                sparse = selection.select(whole, kept(whole.numel(), self.drop))
                sparse.clear(whole)
                self.shards.scatter(whole, self.residual, server, first, last)
        return Wire(sparse.k).pack(sparse)


def kept(elements: int, drop: float) -> int:
    """The number of elements to send, at least one."""
    return max(1, round((1 - drop) * elements))


def empty(elements: int, drop: float, device: torch.device) -> torch.Tensor:
    """A receive buffer for the message of `elements` elements."""
    return Wire(kept(elements, drop)).empty(device)


def dense(message: torch.Tensor, elements: int, drop: float) -> torch.Tensor:
    """The dense vector (elements,) of a message, with 0 for elements that were not sent."""
    sparse: Sparse = Wire(kept(elements, drop)).unpack(message)
    vector = torch.zeros(elements, device=message.device)
    sparse.add_to(vector)
    return vector
