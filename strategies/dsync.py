"""D-Sync: decentralised synchronous SGD by allreduce (Pipe-SGD sections 2 and 4, equation (2))."""

from __future__ import annotations

import torch

from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import AllreduceStrategy, GradientStrategy


class DSync(AllreduceStrategy, GradientStrategy):
    """Gradient, allreduce, update: each iteration depends on the one before."""

    name = "dsync"

    def step(self) -> StepReport:
        if not self.alone:
            return super().step()
        loss = self.worker.gradients(self.minibatch())  # no copy into one vector
        self.worker.update()
        return self.advanced(loss)

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        return self.summed(gradient)
