"""Momentum before the selection of gradients (Lin et al., "Deep Gradient Compression", ICLR 2018, section 3.2)."""

from __future__ import annotations

import torch

from repro.fabric.sparse import Sparse
from repro.training.model_shard import ModelShard


class MomentumCorrection:
    """In the place of the optimizer's momentum: what waits in a residual is then the velocity, not the gradient.

    velocity  (n,) of this rank; cleared where an element was selected
    """

    def __init__(self, shard: ModelShard):
        """Takes the momentum from the shard's optimizer."""
        self.velocity = torch.zeros_like(shard.weights)
        [group] = shard.optimizer.param_groups
        self.momentum, group["momentum"] = group["momentum"], 0.0

    def corrected(self, gradient: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """u = m u + gradient for elements `start` to `end` - 1, whose gradient is (end - start,); a view of u."""
        return self.velocity[start:end].mul_(self.momentum).add_(gradient)

    def clear(self, selected: Sparse) -> None:
        selected.clear(self.velocity)
