"""PS-Sync: synchronous SGD through a parameter server on a rank of its own (Pipe-SGD sections 2 and 4)."""

from __future__ import annotations

from repro.fabric.collectives import dense as collectives
from repro.strategies.base import StepReport
from repro.strategies.shared.parameter_server import PULL, ParameterServer


class PSSync(ParameterServer):
    """Workers push gradients; the server sums them in rank order, updates, and returns the weights."""

    name = "ps_sync"

    def serve(self) -> StepReport:
        worker, fabric = self.worker, self.worker.fabric
        clients = range(worker.workers)
        with worker.clock.phase("communicate"):
            collectives.serve_sum(fabric, self.gradient, clients)
        worker.update(self.gradient)
        with worker.clock.phase("communicate"):
            for send in [fabric.isend(worker.model_shard.weights, client, PULL) for client in clients]:
                send.wait()
        self.iteration += 1
        return StepReport(None, (), 0)
