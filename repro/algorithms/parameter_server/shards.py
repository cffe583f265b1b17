"""Which elements of the model each server of a sharded parameter server holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch

from repro.fabric.collectives.dense import chunk_bounds


@dataclass(frozen=True)
class Shards:
    """How a vector (n,) of consecutive layers, counted from 0, is distributed over servers.

    pieces[server][layer]  (start, end) in the vector; empty if the server holds nothing of the layer
    offsets[server]        where each layer's piece starts among the server's elements, and their number at the end
    """

    pieces: tuple[tuple[tuple[int, int], ...], ...]
    offsets: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, sizes: Sequence[int], servers: int, placement: str = "layers") -> Shards:
        """Distribute layers of these sizes, in elements.

        layers: every layer is cut over all servers, as in Poseidon. So all servers send at every pull, and the layers'
        transfer times add up for any batching, as in iBatch's equation (2). vector: the whole vector is cut into equal
        parts, as in BigDL's AllReduceParameter; a layer is on few servers.
        """
        starts = list(accumulate(sizes, initial=0))
        if placement == "vector":
            parts = chunk_bounds(starts[-1], servers)
            pieces = tuple(
                tuple((min(max(start, first), last), max(min(end, last), first)) for start, end in pairwise(starts))
                for first, last in parts
            )
        else:
            cut = [
                [(start + a, start + b) for a, b in chunk_bounds(size, servers)] for start, size in zip(starts, sizes)
            ]
            pieces = tuple(tuple(layer[server] for layer in cut) for server in range(servers))
        offsets = tuple(tuple(accumulate((end - start for start, end in ranges), initial=0)) for ranges in pieces)
        return cls(pieces, offsets)

    @property
    def layers(self) -> int:
        return len(self.pieces[0])

    def stretch(self, server: int, first: int, last: int) -> tuple[int, int]:
        """The range of the layers `first` to `last`, inclusive, in a server's elements."""
        return self.offsets[server][first], self.offsets[server][last + 1]

    def size(self, server: int, first: int, last: int) -> int:
        """The number of a server's elements of these layers."""
        start, end = self.stretch(server, first, last)
        return end - start

    def elements(self, first: int, last: int) -> int:
        """The number of elements of these layers on all servers."""
        return sum(self.size(server, first, last) for server in range(len(self.pieces)))

    def runs(self, server: int, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges (start, end) of a server's elements of these layers in the vector; adjacent ones are joined."""
        ranges: list[tuple[int, int]] = []
        for start, end in self.pieces[server][first : last + 1]:
            if start == end:
                continue
            if ranges and ranges[-1][1] == start:
                ranges[-1] = ranges[-1][0], end
            else:
                ranges.append((start, end))
        return ranges

    def gather(self, vector: torch.Tensor, server: int, first: int, last: int) -> torch.Tensor:
        """A copy (m,) of a server's elements of these layers, from a vector (n,)."""
        if vector.is_meta:
            return vector.new_empty(self.size(server, first, last))
        pieces = [vector[start:end] for start, end in self.runs(server, first, last)]
        return torch.cat(pieces) if pieces else vector.new_empty(0)

    def scatter(self, held: torch.Tensor, vector: torch.Tensor, server: int, first: int, last: int) -> None:
        """Copy a server's elements (m,) of these layers into the vector (n,)."""
        if held.is_meta:
            return
        place = 0
        for start, end in self.runs(server, first, last):
            vector[start:end].copy_(held[place : place + end - start])
            place += end - start

    def assemble(self, held: Sequence[torch.Tensor], vector: torch.Tensor) -> None:
        """Copy the elements of all servers into the vector (n,)."""
        for server, part in enumerate(held):
            self.scatter(part, vector, server, 0, self.layers - 1)
