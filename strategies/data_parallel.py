"""Synchronous data parallelism: every worker computes a gradient on its own minibatch, then they exchange."""

from __future__ import annotations

from abc import abstractmethod

import torch

from repro.worker import Worker
from strategies.base import StepReport, Strategy


class DataParallel(Strategy):
    """Every worker holds the whole model and takes every `workers`-th minibatch."""

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.iteration = 0
        self.gradient = worker.part.empty()

    def minibatch(self) -> int:
        """Iteration t is minibatches t * workers .. (t + 1) * workers - 1, one a worker in rank order."""
        return self.iteration * self.worker.workers + self.worker.rank

    def local_gradient(self, out: torch.Tensor) -> StepReport:
        """This rank's gradient on its next minibatch, into `out` (n,)."""
        worker, minibatch = self.worker, self.minibatch()
        loss = worker.gradients(minibatch)
        if worker.arithmetic:
            with worker.clock.phase("backward"):
                worker.part.gradient(out)
        self.iteration += 1
        return StepReport(loss, (minibatch,), worker.batches.size)

    def state_dict(self) -> dict:
        return {"iteration": self.iteration}

    def load_state_dict(self, state: dict) -> None:
        self.iteration = state["iteration"]


class GradientStrategy(DataParallel):
    """Gradient, exchange, update. Authors override `exchange`; see the README for a complete example."""

    def step(self) -> StepReport:
        report = self.local_gradient(self.gradient)
        self.worker.update(self.exchange(self.gradient))
        return report

    @abstractmethod
    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        """From this rank's gradient (n,) to what the update uses: the sum over workers (n,), averaged by the update.

        Put communication in `self.worker.clock.phase("communicate")`, compression in phase "compress". `gradient` may
        be overwritten and returned.
        """
