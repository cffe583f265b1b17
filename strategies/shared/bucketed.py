"""Allreduces of a gradient's buckets on a communication task, during the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from repro.fabric.base import BACKGROUND
from repro.strategies.shared.data_parallel import AllreduceOptions, compress_phase
from repro.training.buckets import Bucket, in_order
from repro.training.worker import Worker

Sums = list[list[torch.Tensor]]  # of an iteration: wire blocks of each bucket's sum, in the order of communication


class BucketedAllreduce:
    """One allreduce for each bucket, on a separate task, in the same order on every rank.

    buckets: in the order of communication, the last blocks of the model first.
    """

    def __init__(self, worker: Worker, buckets: Sequence[Bucket], options: AllreduceOptions):
        self.worker, self.buckets = worker, list(buckets)
        self.allreduces = [
            options.allreduce(worker, bucket.end - bucket.start, BACKGROUND, index)
            for index, bucket in enumerate(self.buckets)
        ]
        self.local, self.summed = worker.fabric.queue(), worker.fabric.queue()
        self.task = worker.fabric.spawn(self._communicate, "communication")

    def _communicate(self) -> None:
        """The communication thread: repeatedly wait for a local gradient, allreduce it, mark the sum as ready."""
        while (item := self.local.get(timeout=float("inf"))) is not None:
            index, blocks = item
            with self.worker.clock.phase("communicate"):
                blocks = self.allreduces[index].reduce(blocks)
            self.summed.put(blocks)

    # --- to the task, which owns the vector until all of its sums are received
    def sending(self, gradient: torch.Tensor) -> Callable[[int], None]:
        """A `gradient_ready` callback that sends each bucket, through `gradient` (n,), as soon as it is complete."""

        def complete(index: int) -> None:
            if self.worker.arithmetic:
                self.buckets[index].gradient(gradient)
            self._send(index, gradient)

        return in_order(self.buckets, complete)

    def send(self, gradient: torch.Tensor) -> None:
        """Send all buckets of a complete gradient (n,)."""
        for index in range(len(self.buckets)):
            self._send(index, gradient)

    def _send(self, index: int, gradient: torch.Tensor) -> None:
        bucket = self.buckets[index]
        with compress_phase(self.worker, self.allreduces[index]):
            blocks = self.allreduces[index].compress(gradient[bucket.start : bucket.end])
        self.local.put((index, blocks))

    # --- from the task
    def receive(self) -> Sums:
        """Wait for the sums over workers of the oldest gradient in progress."""
        with self.worker.clock.phase("communicate"):
            return [self.summed.get() for _ in self.buckets]

    def decompress(self, sums: Sums, out: torch.Tensor) -> None:
        """Decompress an iteration's sums into the vector (n,) that was sent."""
        with compress_phase(self.worker, self.allreduces[0]):
            for bucket, allreduce, blocks in zip(self.buckets, self.allreduces, sums):
                allreduce.decompress(blocks, out[bucket.start : bucket.end])

    # --- the harness's
    def state_dict(self) -> list[dict]:
        return [allreduce.state_dict() for allreduce in self.allreduces]

    def load_state_dict(self, state: Sequence[dict]) -> None:
        for allreduce, saved in zip(self.allreduces, state):
            allreduce.load_state_dict(saved)

    def close(self) -> None:
        """End the task; no allreduce may be in progress."""
        self.local.put(None)
        self.task.join()
