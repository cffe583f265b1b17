"""Seconds of a training step's computation without communication, while all ranks compute at once."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from repro.fabric.base import Fabric
from repro.probes import ResultPart
from repro.strategies.base import set_up
from repro.strategies.shared.data_parallel import GradientStrategy
from repro.training.buckets import Bucket, balanced_buckets
from repro.training.worker import Worker


class Computation(ResultPart):
    """Computation of a step (s) on the slowest rank.

    first_segment_backward_s: number of buckets -> time until the gradients of the first bucket to be sent are complete.
    """

    forward_s: float
    backward_s: float
    update_s: float
    data_s: float
    other_s: float
    first_segment_backward_s: dict[str, float]


@dataclass(frozen=True)
class Compute:
    """Seconds a step on the slowest rank.

    other: what the main line does besides passes, update and loading data. buckets: L -> seconds of the backward pass
    until the gradients of each of L buckets are complete, after the bucket before, in the order of communication (the
    last layers first); they sum to `backward`, and the first is l_b of Pipe-SGD's equation (6).
    """

    forward: float
    backward: float
    update: float
    data: float
    other: float
    buckets: dict[int, list[float]]

    @property
    def l_for(self) -> float:
        """The forward pass; it includes `data` and `other`, for which the paper's equations have no term."""
        return self.forward + self.data + self.other

    @property
    def l_comp(self) -> float:
        """l_comp of equation (2): all of the main line but the update."""
        return self.l_for + self.backward

    @property
    def total(self) -> float:
        return self.update + self.l_comp

    def as_result(self) -> dict[str, Any]:
        parts = {f"{name}_s": getattr(self, name) for name in ("forward", "backward", "update", "data", "other")}
        return parts | {"first_segment_backward_s": {str(L): seconds[0] for L, seconds in self.buckets.items()}}


class Alone(GradientStrategy):
    """Gradient and update as in synchronous SGD, without an exchange."""

    name = "alone"

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class ComputeBenchmark:
    """Measures turn by turn; every rank of `fabric` calls it at once and gets the same numbers.

    The slowest rank of each turn counts: ranks that share cores slow each other down as they will in training.
    counts: the numbers of buckets to measure.
    """

    def __init__(self, fabric: Fabric, worker: Worker, counts: Sequence[int]):
        self.fabric, self.worker = fabric, worker
        # in the order of communication, without the last: it is complete when the backward pass ends
        self.early = {L: balanced_buckets(worker.model_shard.blocks, L)[:0:-1] for L in counts}
        self.alone = Alone()
        set_up(self.alone, worker)
        self.worker.clock.start()
        self.steps: list[dict[str, float]] = []  # the mean step of each turn (s)
        self.ready: dict[int, list[list[float]]] = {L: [] for L in counts}

    def turn(self, warmup: int, steps: int) -> None:
        clock = self.worker.clock
        for _ in range(warmup):
            self.alone.step()
        with clock.paused():
            self.fabric.exchange(None)
            self.fabric.barrier()
        clock.take()
        start = clock.train_s()
        for _ in range(steps):
            self.alone.step()
        with clock.paused():  # waits for the device
            mine = {"total": clock.train_s() - start, **clock.take()}
            slowest = max(self.fabric.exchange(mine), key=lambda rank: rank["total"])
        self.steps.append({name: seconds / steps for name, seconds in slowest.items()})
        for L, early in self.early.items():
            if early:
                self.ready[L].append(self._backward_of(early))

    def result(self) -> Compute:
        """The median turn, and the median of each bucket's part of the backward pass."""
        median = sorted(self.steps, key=lambda step: step["total"])[len(self.steps) // 2]
        parts = {name: median[name] for name in ("forward", "backward", "update", "data")}
        buckets = {}
        for L, turns in self.ready.items():
            early = [statistics.median(column) for column in zip(*turns)]
            buckets[L] = [*early, max(0.0, parts["backward"] - sum(early))]
        return Compute(**parts, other=max(0.0, median["total"] - sum(parts.values())), buckets=buckets)

    def _backward_of(self, early: list[Bucket]) -> list[float]:
        """Seconds of one backward pass until each bucket is complete, after the bucket before; on its slowest rank."""
        fabric, worker, ready = self.fabric, self.worker, {}

        def gradient_ready(block: int) -> None:
            ready[block] = fabric.now()

        with worker.clock.paused():
            fabric.exchange(None)
        worker.clock.take()
        worker.gradients(worker.rank, gradient_ready=gradient_ready)
        worker.clock.take()
        ends = [min(i.start for i in worker.clock.middle(float("inf")) if i.name == "backward")]
        for bucket in early:
            ends.append(max(ends[-1], *(ready[block] for block in bucket.trained)))
        with worker.clock.paused():
            mine = [end - start for start, end in pairwise(ends)]
            return [max(column) for column in zip(*fabric.exchange(mine))]
