"""Decentralised SGD that communicates parameters where D-Sync communicates gradients (against Pipe-SGD 3.2)."""

from __future__ import annotations

from contextlib import nullcontext

from repro.worker import Worker
from strategies.base import StepReport
from strategies.data_parallel import AllreduceOptions, DataParallel


class ParameterAveraging(DataParallel):
    """Each worker updates its own copy with its own gradient, then all average their parameters by allreduce.

    For the claim of Pipe-SGD 3.2 that gradients bear lossy compression better than parameters do: the same codec sits
    inside the same ring, and every iteration rounds the model itself (with one worker too).

    Without a codec the outcome is synchronous SGD up to rounding, also with momentum and weight decay: all start an
    iteration at the same parameters, and the update is linear in gradient and momentum buffer. Each worker's momentum
    buffer is that of its own gradients; their mean is D-Sync's. With a codec the buffers do not see the rounding.
    """

    name = "parameter_averaging"
    Options = AllreduceOptions

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.allreduce = self.options.allreduce(worker, worker.part.size)

    def step(self) -> StepReport:
        minibatch = self.minibatch()
        loss = self.worker.gradients(minibatch)
        self.worker.update()
        if self.worker.workers > 1 or not self.allreduce.codec.lossless:
            self.average()
        self.iteration += 1
        return StepReport(loss, (minibatch,), self.worker.batches.size)

    def average(self) -> None:
        """The mean of all workers' parameters, rounded by the codec, into this rank's."""
        weights, phase = self.worker.part.weights, self.worker.clock.phase
        compressing = (lambda: nullcontext()) if self.allreduce.codec.lossless else (lambda: phase("compress"))
        with compressing():
            blocks = self.allreduce.compress(weights)  # without a codec views: summed where they are
        with phase("communicate"):
            blocks = self.allreduce.reduce(blocks)
        with compressing():
            self.allreduce.decompress(blocks, weights)
        with phase("update"):
            weights.div_(self.worker.workers)

    def state_dict(self) -> dict:
        return super().state_dict() | {"allreduce": self.allreduce.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.allreduce.load_state_dict(state["allreduce"])
