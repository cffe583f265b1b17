"""One server's part of a model: its weights, their optimizer state, and the number of updates of each layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from repro.algorithms.parameter_server.shards import Shards
from repro.experiment.optimizer import Optimizer
from repro.training import optimizers
from repro.training.optimizers import Schedule


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
