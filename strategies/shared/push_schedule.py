"""Schedules by which workers of a sharded parameter server push gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from repro.algorithms.parameter_server.client import Client
from repro.training.buckets import block_buckets
from repro.training.worker import Worker

Runs = Sequence[tuple[int, int]]  # (first, last) layers from 0, inclusive


class PushSchedule:
    """The base class, which pushes nothing; one instance for each worker."""

    gradient_ready: Callable[[int], None] | None = None  # called in the backward pass with each complete block

    def __init__(self, worker: Worker, client: Client, pulls: Runs):
        """pulls: the batches in which parameters are pulled."""
        self.worker, self.client, self.pulls = worker, client, pulls
        self.gradient = worker.model_shard.empty()

    def after_backward(self) -> None:
        """Called after the backward pass."""


class InBatches(PushSchedule):
    """After the backward pass in the batches of the pulls, the first layers first, while the next pulls begin."""

    waits: ClassVar[bool] = False  # whether the iteration ends when its gradients are sent

    @property
    def runs(self) -> Runs:
        return self.pulls

    def after_backward(self) -> None:
        worker, client = self.worker, self.client
        if worker.arithmetic:
            with worker.clock.phase("backward"):
                worker.model_shard.gradient(self.gradient)
        with worker.clock.phase("communicate"):
            client.sent()  # of the iteration before
            for first, last in self.runs:
                client.push(first, last, self.gradient)
            if self.waits:
                client.sent()


class AtOnce(InBatches):
    """After the backward pass in one push."""

    waits = True

    @property
    def runs(self) -> Runs:
        return [(0, len(self.worker.model_shard.blocks) - 1)]


class Layerwise(PushSchedule):
    """Each layer as soon as its gradient is ready (Poseidon's wait-free backpropagation)."""

    def __init__(self, worker: Worker, client: Client, pulls: Runs):
        super().__init__(worker, client, pulls)
        buckets = block_buckets(worker.model_shard.blocks)
        self.bucket_of = {block: bucket for bucket in buckets for block in bucket.trained}

    def gradient_ready(self, block: int) -> None:
        if (bucket := self.bucket_of.get(block)) is None:
            return
        if block == max(self.bucket_of):  # the first of a backward pass
            self.client.sent()  # of the iteration before; complete, because this iteration's pulls needed it
        if self.worker.arithmetic:
            bucket.gradient(self.gradient)
        self.client.push(block, block, self.gradient)


PUSHES = {"after": AtOnce, "layerwise": Layerwise, "batches": InBatches}  # by option
