"""A ring allreduce that only moves data: the cost of its communication without summation and codec work."""

from __future__ import annotations

import statistics
from typing import Any

import torch

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.fabric.base import Fabric
from repro.fabric.codecs import Codec
from repro.fabric.codecs import make_codec as find_codec
from repro.fabric.collectives.blocks import piece_bounds
from repro.fabric.collectives.pipelined import ring_pipelined_encoded
from repro.fabric.costs import Costs
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.stopwatch import slowest_seconds


class ForwardOnly(Codec):
    """Has the wire format of another codec, and adds nothing: a hop sends on what it already holds."""

    def __init__(self, inner: Codec):
        super().__init__()
        self.inner, self.name, self.lossless = inner, inner.name, inner.lossless
        self.wire_type = inner.wire_type

    def _encode(self, values: torch.Tensor, in_place: bool = False) -> torch.Tensor:
        return self.inner.encode(values)

    def _decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return self.inner.decode(wire, out)

    def wire_bytes(self, n: int) -> int:
        return self.inner.wire_bytes(n)

    def add(self, mine: torch.Tensor, incoming: torch.Tensor, n: int) -> torch.Tensor:
        return mine


class FreeWork:
    """A fabric on which the work of a collective takes no virtual time."""

    def __init__(self, inner: Fabric):
        self.inner = inner
        self.costs = Costs(True, {}, inner.costs.fixed_seconds) if inner.costs.known else inner.costs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class BareRing:
    """Moves the messages of a ring allreduce of `nbytes` bytes; with one piece a block, those of the plain ring."""

    def __init__(self, fabric: Fabric, nbytes: int, codec: str, pieces: int, device: torch.device):
        self.fabric: Any = FreeWork(fabric)
        self.codec = ForwardOnly(find_codec(codec))
        self.lengths = [end - start for start, end in piece_bounds(nbytes // FLOAT32, fabric.size, pieces)]
        sizes, dtype = self.lengths, torch.float32
        if not self.codec.lossless:
            sizes, dtype = [self.codec.wire_bytes(n) for n in self.lengths], torch.uint8
        self.pieces = [torch.zeros(size, dtype=dtype, device=device) for size in sizes]

    def once(self) -> float:
        """Seconds of the slowest rank; the same on every rank."""
        return slowest_seconds(
            self.fabric, lambda: ring_pipelined_encoded(self.fabric, self.pieces, self.lengths, self.codec)
        )

    def seconds(self, repeat: int) -> float:
        """The median of `repeat` runs, after one that touches fresh pages."""
        return statistics.median(run_in_turns({"ring": self.once}, repeat)["ring"])
