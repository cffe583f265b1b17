"""The base class of strategies with a parameter server on a separate rank."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.training.worker import Worker

PUSH, PULL = 0, 1  # tags


class ParameterServer(DataParallel):
    """Workers push gradients (n,) and pull weights (n,); the last rank is the server, which holds the optimizer.

    The workers' weights are copies of the server's. Subclasses implement the server's step, `serve`.
    """

    @classmethod
    def ranks(cls, options: Any, workers: int) -> int:
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
            worker.fabric.send(self.gradient, self.server, PUSH)
            worker.fabric.recv(worker.model_shard.weights, self.server, PULL)
        return report

    @abstractmethod
    def serve(self) -> StepReport:
        """The server's step: a push and a pull for each worker."""
