"""A gradient summed segment by segment on a communication task, while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repro.fabric.base import BACKGROUND
from repro.training.buckets import Segment
from repro.training.worker import Worker
from strategies.shared.data_parallel import AllreduceOptions, compressing


class SegmentedAllreduce:
    """One allreduce a segment, on a task of their own, in the same order on every rank.

    segments    in the order of communication: the last blocks of the model first
    allreduces  of each segment; they share codec, algorithm and channel
    """

    def __init__(self, worker: Worker, segments: Sequence[Segment], options: AllreduceOptions):
        self.worker, self.segments = worker, list(segments)
        self.allreduces = [
            options.allreduce(worker, segment.end - segment.start, BACKGROUND, index)
            for index, segment in enumerate(self.segments)
        ]
        self.local, self.summed = worker.fabric.queue(), worker.fabric.queue()
        self.task = worker.fabric.spawn(self._communicate, "communication")

    def __len__(self) -> int:
        return len(self.segments)

    def _communicate(self) -> None:
        """The communication thread: for t = 1 ... wait for the local gradient, allreduce it, mark the sum as ready."""
        while (item := self.local.get(timeout=float("inf"))) is not None:
            index, blocks = item
            with self.worker.clock.phase("communicate"):
                blocks = self.allreduces[index].reduce(blocks)
            self.summed.put(blocks)

    def gradients(self, minibatch: int, buffer: torch.Tensor) -> torch.Tensor | None:
        """Forward and backward pass; each segment leaves, by way of `buffer` (n,), as soon as it is complete.

        `buffer` belongs to the communication until all of its sums were taken. Returns the loss, on the device.
        """
        missing = [set(segment.trained) for segment in self.segments]
        handed_over = 0

        def block_ready(block: int) -> None:
            nonlocal handed_over
            for blocks in missing:
                blocks.discard(block)
            # in the same order on every rank, whatever the order in which a backward pass comes to its blocks
            while handed_over < len(missing) and not missing[handed_over]:
                if self.worker.arithmetic:
                    self.segments[handed_over].gradient(buffer)
                self.hand_over(handed_over, buffer)
                handed_over += 1

        return self.worker.gradients(minibatch, gradient_ready=block_ready)

    def hand_over(self, index: int, buffer: torch.Tensor) -> None:
        """Compress a segment of the gradient in `buffer` (n,) and give it to the communication task."""
        segment = self.segments[index]
        with compressing(self.worker, self.allreduces[index]):
            blocks = self.allreduces[index].compress(buffer[segment.start : segment.end])
        self.local.put((index, blocks))

    def next_sum(self) -> list[torch.Tensor]:
        """Wait for the next segment's sum over workers, as wire blocks, in the order of `hand_over`."""
        return self.summed.get()

    def decompress(self, sums: Sequence[list[torch.Tensor]], buffer: torch.Tensor) -> None:
        """An iteration's sums, as of `next_sum`, into the vector (n,) that they came from."""
        with compressing(self.worker, self.allreduces[0]):
            for segment, allreduce, blocks in zip(self.segments, self.allreduces, sums):
                allreduce.decompress(blocks, buffer[segment.start : segment.end])

    def state_dict(self) -> list[dict]:
        return [allreduce.state_dict() for allreduce in self.allreduces]

    def load_state_dict(self, state: Sequence[dict]) -> None:
        for allreduce, saved in zip(self.allreduces, state):
            allreduce.load_state_dict(saved)

    def close(self) -> None:
        """End the task; nothing may be under way."""
        self.local.put(None)
        self.task.join()
