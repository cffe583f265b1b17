"""The servers' parts of a model: which elements each server holds, their weights and their optimizer state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import nn

from repro.experiment.optimizer import Optimizer
from repro.fabric.collectives.dense import chunk_bounds
from repro.training import optimizers
from repro.training.optimizers import Schedule


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


class Shard:
    """A server's shard.

    values   (m,) float32: the server's elements, layer after layer
    updates  the number of updates of each layer
    updates_per_iteration  how many of a layer's updates count as one step of the learning-rate schedule
    """

    def __init__(
        self, weights: torch.Tensor, shards: Shards, server: int, optimizer: Optimizer, iterations_per_epoch: int
    ):
        """weights: (n,) of the whole model. optimizer: as in the configuration."""
        self.shards, self.server = shards, server
        self.values = shards.gather(weights, server, 0, shards.layers - 1)
        offsets = shards.offsets[server]
        self.parameters = {
            layer: nn.Parameter(self.values[offsets[layer] : offsets[layer + 1]], requires_grad=True)
            for layer in range(shards.layers)
            if offsets[layer] < offsets[layer + 1]
        }
        self.optimizer = optimizers.build_optimizer(optimizer, [*self.parameters.values()] or [torch.empty(0)])
        self.schedule = Schedule(optimizer, iterations_per_epoch)
        self.clip_norm: float | None = optimizer.clip_norm
        self.updates = [0] * shards.layers
        self.updates_per_iteration = 1

    def stretch(self, first: int, last: int) -> torch.Tensor:
        """A view of the weights of the layers `first` to `last`, inclusive."""
        start, end = self.shards.stretch(self.server, first, last)
        return self.values[start:end]

    def update(self, first: int, last: int, gradient: torch.Tensor | None, lr_factor: float = 1.0) -> None:
        """One optimizer step of these layers with their gradient, of the shape of `stretch`; None: no arithmetic.

        The step is elementwise, so the bits do not depend on the groups of layers and the sharding.
        """
        rate = self.schedule.rate(1 + self.updates[first] // self.updates_per_iteration)
        for layer in range(first, last + 1):
            self.updates[layer] += 1
        if gradient is None:
            return
        start = self.shards.offsets[self.server][first]
        for layer, parameter in self.parameters.items():
            parameter.grad = None
            if first <= layer <= last:
                begin = self.shards.offsets[self.server][layer] - start
                parameter.grad = gradient[begin : begin + parameter.numel()]
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_([*self.parameters.values()], self.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * lr_factor
        self.optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values.clone(), "optimizer": self.optimizer.state_dict(), "updates": list(self.updates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values.copy_(state["values"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = list(state["updates"])
