"""PS-Sync: synchronous SGD through a parameter server on a rank of its own (Pipe-SGD sections 2 and 4)."""

from __future__ import annotations

from repro.fabric import collectives
from repro.worker import Worker
from strategies.base import StepReport
from strategies.data_parallel import DataParallel

PUSH, PULL = 0, 1


class PSSync(DataParallel):
    """Workers push gradients; the server sums them in rank order, updates, and returns the weights.

    The server is the last rank. It holds the optimizer; the workers' weights are copies of the server's.
    """

    name = "ps_sync"

    @classmethod
    def ranks(cls, workers: int) -> int:
        return workers + 1

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.server = worker.fabric.size - 1

    def step(self) -> StepReport:
        return self.serve() if self.worker.is_server else self.work()

    def work(self) -> StepReport:
        worker = self.worker
        report = self.local_gradient(self.gradient)
        with worker.clock.phase("communicate"):
            pull = worker.fabric.irecv(worker.part.weights, self.server, PULL)
            worker.fabric.send(self.gradient, self.server, PUSH)
            pull.wait()
        return report

    def serve(self) -> StepReport:
        worker, fabric = self.worker, self.worker.fabric
        clients = range(worker.workers)
        with worker.clock.phase("communicate"):
            collectives.serve_sum(fabric, self.gradient, clients)
        worker.update(self.gradient)
        with worker.clock.phase("communicate"):
            for send in [fabric.isend(worker.part.weights, client, PULL) for client in clients]:
                send.wait()
        self.iteration += 1
        return StepReport(None, (), 0)
