"""Asynchronous SGD through a parameter server on a rank of its own (Pipe-SGD section 2, Figure 1 (a))."""

from __future__ import annotations

import torch

from repro.fabric.base import ANY_SOURCE, Work
from repro.strategies.base import StepReport
from repro.strategies.shared.parameter_server import PULL, PUSH, ParameterServer
from repro.training.worker import Worker


class PSAsync(ParameterServer):
    """Each worker computes a gradient, pushes it and pulls the new weights, without waiting for another worker.

    The server, the last rank, applies each gradient on arrival (at the same virtual time in rank order) and returns the
    new weights to that worker. Pipe-SGD prints no learning rate for an asynchronous step. Ours is 1 / workers of the
    rate, so that an epoch has the same effect as in synchronous SGD; the schedule counts `workers` pushes as one
    update. Momentum and weight decay act at every push.

    Between two evaluations or checkpoints a fast worker may be any number of pushes ahead; there all workers have done
    the same number of iterations, so evaluating more often changes the order of pushes. A server step is `workers`
    pushes, from any workers.
    """

    name = "ps_async"
    requires = frozenset({"any_source"})
    identical_replicas = False  # a worker's weights are as old as its last pull
    deterministic = False
    unlike_one_worker = "each push is an update of its own, with a share of the learning rate"

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        worker.model_shard.updates_per_iteration = worker.workers
        self.version = 0  # of the weights: pushes applied so far
        self.pulled = [0] * worker.workers  # the version that each worker computes with

    def serve(self) -> StepReport:
        worker, fabric = self.worker, self.worker.fabric
        staleness, reply = [], None
        for _ in range(worker.workers):
            with worker.clock.phase("communicate"):
                client = fabric.recv(self.gradient, ANY_SOURCE, PUSH)
                _finish(reply)  # the weights must not change before they are sent
            staleness.append(self.version - self.pulled[client])
            worker.update(self.gradient, lr_factor=1 / worker.workers, summands=1)
            self.version += 1
            self.pulled[client] = self.version
            with worker.clock.phase("communicate"):
                reply = fabric.isend(worker.model_shard.weights, client, PULL)
        with worker.clock.phase("communicate"):
            _finish(reply)
        self.iteration += 1
        return StepReport(None, (), 0, tuple(staleness))

    def eval_weights(self) -> dict[str, torch.Tensor]:
        """The server's weights; only workers have buffers, such as running means of a batch norm."""
        weights = super().eval_weights()
        if self.worker.is_server:
            return weights
        parameters = {name for name, _ in self.worker.model_shard.model.named_parameters()}
        return {name: tensor for name, tensor in weights.items() if name not in parameters}

    def state_dict(self) -> dict:
        return super().state_dict() | {"version": self.version, "pulled": list(self.pulled)}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.version, self.pulled = state["version"], list(state["pulled"])


def _finish(work: Work | None) -> None:
    if work is not None:
        work.wait()
