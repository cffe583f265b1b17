"""Asynchronous SGD through a parameter server on a rank of its own (Pipe-SGD section 2, Figure 1 (a))."""

from __future__ import annotations

import torch

from repro.fabric.base import ANY_SOURCE, Work
from repro.strategies.base import StepReport
from repro.strategies.shared.parameter_server import PULL, PUSH, ParameterServer
from repro.training.worker import Worker


class PSAsync(ParameterServer):
    """Every worker by itself: compute a gradient, push it, pull the new weights. Nobody waits for another worker.

    The server, the last rank, applies each gradient as it comes in (first come first served; messages that are in at
    the same virtual time in rank order) and returns the new weights to that worker alone. Pipe-SGD gives no rule for
    the size of an asynchronous step: ours uses 1 / workers of the learning rate, so that an epoch moves as far as in
    synchronous SGD; the learning-rate schedule counts `workers` pushes as one update. Momentum and weight decay act at
    every push, the latter through the shortened rate.

    Between two stops of the run (evaluations, checkpoints) a fast worker may be any number of pushes ahead; at a stop
    all have done the same number of iterations, so evaluating more often changes who is first. A server step is
    `workers` pushes, whoever they come from.
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
                _finish(reply)  # the weights must stay as they are until they have left
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
        """The server's weights; what no gradient moves (running means of a batch norm) only workers have."""
        held = super().eval_weights()
        if self.worker.is_server:
            return held
        moved = {name for name, _ in self.worker.model_shard.model.named_parameters()}
        return {name: tensor for name, tensor in held.items() if name not in moved}

    def state_dict(self) -> dict:
        return super().state_dict() | {"version": self.version, "pulled": list(self.pulled)}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.version, self.pulled = state["version"], list(state["pulled"])


def _finish(work: Work | None) -> None:
    if work is not None:
        work.wait()
