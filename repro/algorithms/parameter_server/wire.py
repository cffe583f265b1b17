"""Weights and gradients on the wire between workers and a sharded server: number format, and gradient dropping.

Their Algorithm 1: add the residual to the gradient, send the elements of largest magnitude, keep the others as the new
residual. They drop 99 %.

DEVIATION: each message (a server's part of a push) has its own threshold, which is exact instead of sampled. So the
size of a message is known without reading values.
"""

from __future__ import annotations

import torch

from repro.algorithms.parameter_server.shards import Shards
from repro.fabric.base import Fabric
from repro.fabric.codecs import make_codec
from repro.fabric.sparse import selection
from repro.fabric.sparse.gradients import Wire
from repro.training.clock import Clock

FORMATS = {"float32": "none", "truncate16": "truncate16"}  # option -> codec


class WireFormat:
    """Encodes float32 vectors (n,) for the wire. In virtual time a conversion takes the codec's time on the host.

    float32     unchanged
    truncate16  the upper two bytes of each number, BigDL's only format, which it calls FP16 (github.com/
                intel-analytics/BigDL, v0.5.0, spark/dl/src/main/scala/com/intel/analytics/bigdl/parameters/
                AllReduceParameter.scala:194 and 275, FP16CompressedTensor.scala). A server's weights stay float32.
    """

    def __init__(self, fabric: Fabric, name: str = "float32"):
        self.fabric, self.codec = fabric, make_codec(FORMATS[name])
        self.plain = self.codec.lossless

    def empty(self, elements: int, device: torch.device) -> torch.Tensor:
        """A receive buffer for so many elements."""
        return torch.empty(elements, dtype=self.codec.wire_type, device=device)

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        if self.plain:
            return values
        with self.fabric.compute(self._seconds("encode", values), "host"):
            return self.codec.encode(values)

    def decode(self, sent: torch.Tensor) -> torch.Tensor:
        if self.plain:
            return sent
        with self.fabric.compute(self._seconds("decode", sent), "host"):
            return self.codec.decode(sent, torch.empty(sent.numel(), device=sent.device))

    def _seconds(self, what: str, vector: torch.Tensor) -> float | None:
        return self.fabric.costs.seconds(f"{what}/{self.codec.name}", 4 * vector.numel())


class Dropping:
    """A worker's residual (n,) and messages. drop: the fraction of elements that are not sent, 0 <= drop < 1."""

    def __init__(self, fabric: Fabric, clock: Clock, shards: Shards, weights: torch.Tensor, drop: float):
        self.fabric, self.clock, self.shards, self.drop = fabric, clock, shards, drop
        self.residual = torch.zeros_like(weights)

    def message(self, gradient: torch.Tensor, server: int, first: int, last: int) -> torch.Tensor:
        """A server's message with its elements of the layers `first` to `last` of the gradient (n,)."""
        part = self.shards.gather(gradient, server, first, last)
        wire = wire_of(part.numel(), self.drop)
        with self.clock.interruption("compress"):
            with self.fabric.compute(self.fabric.costs.seconds("select/exact", 4 * part.numel()), "host"):
                part += self.shards.gather(self.residual, server, first, last)
                sparse = selection.select_topk(part, wire.k)
                sparse.clear(part)
                self.shards.scatter(part, self.residual, server, first, last)
        return wire.pack(sparse)


def wire_of(elements: int, drop: float) -> Wire:
    """The format of a message of `elements` elements: those that are not dropped, at least one."""
    return Wire(max(1, round((1 - drop) * elements)))


def dense_gradient(message: torch.Tensor, elements: int, drop: float) -> torch.Tensor:
    """The dense vector (elements,) of a message, with 0 for elements that were not sent."""
    vector = torch.zeros(elements, device=message.device)
    wire_of(elements, drop).unpack(message).add_to(vector)
    return vector
