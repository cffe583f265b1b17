"""A ring that only moves its pieces: communication by itself."""

from __future__ import annotations

import statistics
from typing import Any

import torch

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.fabric.base import Fabric
from repro.fabric.codecs import Codec
from repro.fabric.codecs import codec as find_codec
from repro.fabric.collectives.blocks import piece_bounds
from repro.fabric.collectives.pipelined import ring_pipelined_encoded
from repro.fabric.costs import Costs
from repro.probes.shared.stopwatch import slowest


class Unopened(Codec):
    """Wire tensors of another codec that nobody opens: a hop's sum is what was there before."""

    def __init__(self, inner: Codec):
        super().__init__()
        self.inner, self.name, self.lossless = inner, inner.name, inner.lossless

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        return self.inner.encode(values)

    def decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return self.inner.decode(wire, out)

    def wire_bytes(self, n: int) -> int:
        return self.inner.wire_bytes(n)

    def add(self, mine: torch.Tensor, incoming: torch.Tensor, n: int) -> torch.Tensor:
        return mine


class WithoutWork:
    """A fabric on which a collective's own work takes no virtual time."""

    def __init__(self, inner: Fabric):
        self.inner = inner
        self.costs = Costs(True, {}, inner.costs.fixed_seconds) if inner.costs.known else inner.costs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Moving:
    """`given`: {bytes (of float32), codec, pieces}; with one piece a block it moves what the native ring moves."""

    def __init__(self, fabric: Fabric, given: dict[str, Any], device: torch.device):
        self.fabric, self.codec = fabric, Unopened(find_codec(given["codec"]))
        cut = piece_bounds(given["bytes"] // FLOAT32, fabric.size, given["pieces"])
        self.lengths = [end - start for start, end in cut]
        if self.codec.lossless:
            self.pieces = [torch.zeros(n, device=device) for n in self.lengths]
        else:
            sizes = [self.codec.wire_bytes(n) for n in self.lengths]
            self.pieces = [torch.zeros(size, dtype=torch.uint8, device=device) for size in sizes]

    def once(self) -> float:
        """Seconds of the slowest rank; every rank gets the number."""
        fabric: Any = WithoutWork(self.fabric)
        return slowest(fabric, lambda: ring_pipelined_encoded(fabric, self.pieces, self.lengths, self.codec))

    def seconds(self, repeat: int) -> float:
        """Median of so many, after one that touches fresh pages."""
        self.once()
        return statistics.median(self.once() for _ in range(repeat))
