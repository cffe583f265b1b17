"""D-Sync: decentralised synchronous SGD by allreduce (Pipe-SGD sections 2 and 4, equation (2))."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from repro.worker import Worker
from strategies.base import StepReport
from strategies.data_parallel import AllreduceOptions, GradientStrategy


class DSync(GradientStrategy):
    """Gradient, allreduce, update: each iteration depends on the one before."""

    name = "dsync"
    Options = AllreduceOptions

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.allreduce = self.options.allreduce(worker, worker.part.size)

    def step(self) -> StepReport:
        if self.worker.workers > 1 or not self.allreduce.codec.lossless:
            return super().step()
        # alone there is nobody to exchange with: no copy into one vector either
        minibatch = self.minibatch()
        loss = self.worker.gradients(minibatch)
        self.worker.update()
        self.iteration += 1
        return StepReport(loss, (minibatch,), self.worker.batches.size)

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        phase = self.worker.clock.phase
        compressing = (lambda: nullcontext()) if self.allreduce.codec.lossless else (lambda: phase("compress"))
        with compressing():
            blocks = self.allreduce.compress(gradient)
        with phase("communicate"):
            blocks = self.allreduce.reduce(blocks)
        with compressing():
            return self.allreduce.decompress(blocks, gradient)

    def state_dict(self) -> dict:
        return super().state_dict() | {"allreduce": self.allreduce.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.allreduce.load_state_dict(state["allreduce"])
