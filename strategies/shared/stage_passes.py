"""The forward and backward passes of a rank's stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from repro.algorithms.pipeline.messages import Messages
from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, Op, Plan
from repro.algorithms.pipeline.shapes import count_saved
from repro.algorithms.pipeline.versions import Versions
from repro.core.not_none import not_none
from repro.strategies.base import StepReport
from repro.strategies.shared.stage_updates import Updates
from repro.training.worker import Worker


@dataclass
class Flying:
    """A minibatch between its forward and its backward pass in this stage."""

    version: int
    received: torch.Tensor | None  # the receive buffer of its input; None at the input stage
    x: torch.Tensor | None
    output: torch.Tensor | None


class Passes:
    """Pass k is of this rank's k-th minibatch, `plan.minibatch(stage, replica, k)`.

    done, forwarded  numbers of finished backward and forward passes
    flying           k -> minibatches between their passes; most_flying: the most at once
    kept_bytes       bytes that autograd keeps of one minibatch's forward pass
    """

    def __init__(self, worker: Worker, plan: Plan, versions: Versions, updates: Updates, messages: Messages):
        self.worker, self.plan, self.versions, self.updates, self.messages = worker, plan, versions, updates, messages
        self.stage, self.replica = plan.layout.place(worker.rank)
        self.is_input, self.is_output = self.stage == 0, self.stage == len(plan.layout.stages) - 1
        self.done, self.forwarded = 0, 0
        self.flying: dict[int, Flying] = {}
        self.most_flying, self.kept_bytes = 0, 0

    def minibatch(self, k: int) -> int:
        return self.plan.minibatch(self.stage, self.replica, k)

    # --- forward
    def forward(self, k: int) -> None:
        worker, minibatch, version = self.worker, self.minibatch(k), self.plan.version(self.stage, k, self.replica)
        iteration = minibatch // worker.workers
        if k == 0 or self.minibatch(k - 1) // worker.workers != iteration:
            worker.inject_delay(iteration)  # once for each iteration, as in every strategy
        self.updates.reach(version)
        received = None if self.is_input else self._receive(Op(FORWARD, k))
        x, y = self._data(minibatch, received)
        self.versions.use(version)
        self.flying[k] = Flying(version, received, x, self._output(minibatch, x, y))
        self.forwarded = k + 1
        self.most_flying = max(self.most_flying, len(self.flying))
        if not self.is_output:
            with worker.clock.phase("communicate"):
                self._send_output(k)

    def _data(self, minibatch: int, received: torch.Tensor | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The stage's input of a minibatch, and at the output stage its labels."""
        worker = self.worker
        if not worker.arithmetic:
            return received, None
        x, y = received, None
        if self.is_input or self.is_output:
            with worker.clock.phase("data"):
                loaded, labels = worker.batches[minibatch]
            x, y = (loaded if self.is_input else x), (labels if self.is_output else None)
        return x if self.is_input else not_none(x).detach().requires_grad_(), y

    def _output(self, minibatch: int, x: torch.Tensor | None, y: torch.Tensor | None) -> torch.Tensor | None:
        """The forward pass; the first one also measures `kept_bytes`, because all minibatches have the same shape."""
        worker = self.worker
        if self.kept_bytes or not worker.arithmetic:
            return worker.forward(minibatch, x, y)
        with count_saved(worker.model_shard.parameters) as saved:
            output = worker.forward(minibatch, x, y)
        self.kept_bytes = saved.nbytes
        saved.storages.clear()
        return output

    def repeat_forward(self, k: int, version: int, received: torch.Tensor | None, boundary: int) -> None:
        """Repeat a forward pass after a resume, and send its output if the next stage had not used it at its checkpoint
        (at that boundary, see `LookAhead`)."""
        worker, output, x = self.worker, None, None
        if received is not None:
            received = received.to(worker.model_shard.device)
        if worker.arithmetic:
            loaded, y = worker.batches[self.minibatch(k)]
            x = loaded if self.is_input else not_none(received).detach().requires_grad_()
            self.versions.use(version)
            output = worker.forward(self.minibatch(k), x, y if self.is_output else None, timed=False)
        self.flying[k] = Flying(version, received, x, output)
        if not self.is_output and not self.plan.forwarded_before(self.stage + 1, self.minibatch(k), boundary):
            self._send_output(k)

    # --- backward
    def backward(self, k: int) -> StepReport:
        worker, minibatch = self.worker, self.minibatch(k)
        self.updates.reach(self.plan.update_of(self.stage, k))
        flying = self.flying.pop(k)
        gradient = None if self.is_output else self._receive(Op(BACKWARD, k))
        self.versions.use(flying.version)
        worker.backward(
            minibatch, flying.output, gradient, self.updates.gradient_ready(k), add=not self.updates.first(k)
        )
        if gradient is not None:
            self.messages.release(BACKWARD, gradient)
        if not self.is_input:
            with worker.clock.phase("communicate"):
                sent = not_none(not_none(flying.x).grad) if worker.arithmetic else self._empty(FORWARD)
                self.messages.send(BACKWARD, minibatch, sent)
            self.messages.release(FORWARD, not_none(flying.received))
        self.done = k + 1
        staleness = self.plan.update_of(self.stage, k) - flying.version
        self.updates.after_backward(k)
        self.versions.use_latest()
        loss = not_none(flying.output).detach() if self.is_output and worker.arithmetic else None
        return StepReport(loss, (minibatch,), worker.batches.size, (staleness,))

    def needed(self) -> set[int]:
        """The versions, up to the latest, of minibatches in progress and of later forward passes."""
        to_come = self.plan.versions_to_come(self.stage, self.replica, self.forwarded, self.versions.latest)
        return {flying.version for flying in self.flying.values()}.union(to_come)

    # --- messages
    def _receive(self, op: Op) -> torch.Tensor:
        with self.worker.clock.phase("communicate"):
            return self.messages.take(op)

    def _send_output(self, k: int) -> None:
        output = self.flying[k].output  # None without arithmetic
        self.messages.send(FORWARD, self.minibatch(k), self._empty(BACKWARD) if output is None else output.detach())

    def _empty(self, kind: str) -> torch.Tensor:
        """A message without data, of the size that a pass of that kind receives."""
        shape = self.messages.shapes[kind]
        return torch.empty(shape.size, dtype=shape.dtype, device="meta")

    # --- memory
    def memory(self) -> dict[str, int]:
        """Bytes of weights, older versions, saved activations and message buffers; most minibatches in flight."""
        weights = 4 * self.worker.model_shard.size
        return {
            "weights_bytes": weights,
            "stash_bytes": (self.versions.peak - 1) * weights,
            "activation_bytes": self.most_flying * self.kept_bytes,
            "in_flight": self.most_flying,
            "buffer_bytes": self.messages.buffer_bytes,
        }

    # --- resume
    def state_dict(self) -> dict[str, Any]:
        """Inputs of the minibatches in progress; `repeat_forward` repeats their forward passes."""
        inputs = {
            k: (flying.version, None if flying.received is None else flying.received.clone())
            for k, flying in self.flying.items()
        }
        return {"done": self.done, "flying": inputs, "most_flying": self.most_flying}
