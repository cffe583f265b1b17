"""D-Sync: decentralised synchronous SGD by allreduce (Pipe-SGD sections 2 and 4, equation (2))."""

from __future__ import annotations

import torch

from strategies.base import StepReport
from strategies.shared.data_parallel import AllreduceStrategy, GradientStrategy


class DSync(AllreduceStrategy, GradientStrategy):
    """Gradient, allreduce, update: each iteration depends on the one before."""

    name = "dsync"

    def step(self) -> StepReport:
        if not self.alone:
            return super().step()
        # no copy into one vector either
        minibatch = self.minibatch()
        loss = self.worker.gradients(minibatch)
        self.worker.update()
        self.iteration += 1
        return StepReport(loss, (minibatch,), self.worker.batches.size)

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        return self.summed(gradient)
