"""Decentralised SGD that communicates parameters instead of gradients (compare Pipe-SGD 3.2)."""

from __future__ import annotations

from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import AllreduceStrategy


class ParameterAveraging(AllreduceStrategy):
    """Each worker updates its own copy with its own gradient, then all average their parameters by allreduce.

    Tests the claim of Pipe-SGD 3.2 that gradients tolerate lossy compression better than parameters: the codec is in
    the same ring as D-Sync's, and every iteration rounds the model (also with one worker).

    Without a codec this is synchronous SGD up to rounding, also with momentum and weight decay: all workers start an
    iteration at the same parameters, and the update is linear in gradient and momentum buffer. Each worker's momentum
    buffer is of its own gradients; their mean is D-Sync's. A codec does not round the buffers.
    """

    name = "parameter_averaging"

    def step(self) -> StepReport:
        loss = self.worker.gradients(self.minibatch())
        self.worker.update()
        if not self.alone:
            self.average()
        return self.advanced(loss)

    def average(self) -> None:
        """Set this rank's parameters to the mean of all workers', rounded by the codec."""
        total = self.summed(self.worker.model_shard.weights)
        with self.worker.clock.phase("update"):
            total.div_(self.worker.workers)
