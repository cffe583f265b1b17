"""Decentralised SGD that communicates parameters where D-Sync communicates gradients (against Pipe-SGD 3.2)."""

from __future__ import annotations

from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import AllreduceStrategy


class ParameterAveraging(AllreduceStrategy):
    """Each worker updates its own copy with its own gradient, then all average their parameters by allreduce.

    For the claim of Pipe-SGD 3.2 that gradients bear lossy compression better than parameters do: the same codec sits
    inside the same ring, and every iteration rounds the model itself (with one worker too).

    Without a codec the outcome is synchronous SGD up to rounding, also with momentum and weight decay: all start an
    iteration at the same parameters, and the update is linear in gradient and momentum buffer. Each worker's momentum
    buffer is that of its own gradients; their mean is D-Sync's. With a codec the buffers do not see the rounding.
    """

    name = "parameter_averaging"

    def step(self) -> StepReport:
        loss = self.worker.gradients(self.minibatch())
        self.worker.update()
        if not self.alone:
            self.average()
        return self.advanced(loss)

    def average(self) -> None:
        """The mean of all workers' parameters, rounded by the codec, into this rank's."""
        total = self.summed(self.worker.model_shard.weights)
        with self.worker.clock.phase("update"):
            total.div_(self.worker.workers)
