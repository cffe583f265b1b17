"""When a worker of a sharded parameter server pushes the gradients of which layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from repro.algorithms.parameter_server.client import Client
from repro.training.buckets import block_buckets
from repro.training.worker import Worker

Runs = Sequence[tuple[int, int]]  # (first, last) layers from 0, both in it


class PushSchedule:
    """One instance a worker; by itself it pushes nothing.

    gradient_ready  what the backward pass calls with each block whose gradient is complete; None: nothing
    """

    gradient_ready: Callable[[int], None] | None = None

    def __init__(self, worker: Worker, client: Client, pulls: Runs):
        """pulls: the batches in which parameters are pulled."""
        self.worker, self.client, self.pulls = worker, client, pulls
        self.gradient = worker.model_shard.empty()

    def behind_backward(self) -> None:
        """The backward pass is over."""


class BehindBackward(PushSchedule, ABC):
    """Once all gradients are there, in runs of layers."""

    waits: ClassVar[bool]  # whether they have left before the iteration ends

    @property
    @abstractmethod
    def runs(self) -> Runs:
        """In the order in which they are pushed."""

    def behind_backward(self) -> None:
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


class AtOnce(BehindBackward):
    """All gradients in one push."""

    waits = True

    @property
    def runs(self) -> Runs:
        return [(0, len(self.worker.model_shard.blocks) - 1)]


class InBatches(BehindBackward):
    """In the batches of the pulls, the first layers first, while the next iteration's pulls begin."""

    waits = False

    @property
    def runs(self) -> Runs:
        return self.pulls


class Layerwise(PushSchedule):
    """Each layer's as soon as it is ready (Poseidon's wait-free backpropagation)."""

    def __init__(self, worker: Worker, client: Client, pulls: Runs):
        super().__init__(worker, client, pulls)
        buckets = block_buckets(worker.model_shard.blocks)
        self.bucket_of = {block: bucket for bucket in buckets for block in bucket.trained}

    def gradient_ready(self, block: int) -> None:
        if (bucket := self.bucket_of.get(block)) is None:
            return
        if block == max(self.bucket_of):  # the first of a backward pass
            self.client.sent()  # of the iteration before: long gone, as this one's pulls needed it
        if self.worker.arithmetic:
            bucket.gradient(self.gradient)
        self.client.push(block, block, self.gradient)


PUSHES = {"after": AtOnce, "layerwise": Layerwise, "batches": InBatches}  # by the names that options have
