"""Seconds of a training step's computation without communication, all ranks computing at once."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from repro.fabric.base import Fabric
from repro.strategies.shared.data_parallel import GradientStrategy
from repro.training.buckets import Bucket, balanced_buckets
from repro.training.worker import Worker


@dataclass(frozen=True)
class Compute:
    """Seconds a step on the slowest rank: passes, update, loading data, and what the main line does besides.

    buckets: L -> seconds of the backward pass until each of L buckets has its gradients, after the one before, in the
    order of communication (the last layers first); they sum to the backward pass. The first is l_b of equation (6).
    """

    forward: float
    backward: float
    update: float
    data: float
    other: float
    buckets: dict[int, list[float]]

    @property
    def l_up(self) -> float:
        return self.update

    @property
    def l_for(self) -> float:
        """The forward pass and what stands in a step besides: a step's time has to lie somewhere."""
        return self.forward + self.data + self.other

    @property
    def l_comp(self) -> float:
        """All of the main line but the update, l_comp of equation (2)."""
        return self.l_for + self.backward

    def as_result(self) -> dict[str, Any]:
        return {
            "forward_s": self.forward,
            "backward_s": self.backward,
            "update_s": self.update,
            "data_s": self.data,
            "other_s": self.other,
            "first_segment_backward_s": {str(L): seconds[0] for L, seconds in self.buckets.items()},
        }


class Alone(GradientStrategy):
    """Gradient and update as in synchronous SGD, with nobody to exchange with."""

    name = "alone"

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class ComputeBenchmark:
    """Measures turn by turn; every rank of `fabric` calls it at once and gets the same numbers.

    Of each turn the slowest rank counts: on shared cores the ranks slow each other down as they will in training, which
    is part of what is predicted from. `counts`: the numbers of buckets asked for.
    """

    def __init__(self, fabric: Fabric, worker: Worker, counts: Sequence[int]):
        self.fabric, self.worker = fabric, worker
        # in the order of communication; when the last is there the backward pass is over
        self.early = {L: balanced_buckets(worker.model_shard.blocks, L)[:0:-1] for L in counts}
        self.alone = Alone()
        self.alone.setup(worker)
        self.worker.clock.start()
        self.stretches: list[dict[str, float]] = []  # seconds a step
        self.ready: dict[int, list[list[float]]] = {L: [] for L in counts}

    def turn(self, warmup: int, steps: int) -> None:
        clock = self.worker.clock
        for _ in range(warmup):
            self.alone.step()
        with clock.paused():
            self.fabric.exchange(None)
            self.fabric.barrier()
        clock.take()
        began = clock.train_s()
        for _ in range(steps):
            self.alone.step()
        with clock.paused():  # waits for the device
            mine = {"total": clock.train_s() - began, **clock.take()}
            slowest = max(self.fabric.exchange(mine), key=lambda rank: rank["total"])
        self.stretches.append({name: seconds / steps for name, seconds in slowest.items()})
        for L, early in self.early.items():
            if early:
                self.ready[L].append(self._backward_of(early))

    def result(self) -> Compute:
        """The median turn, and the median of each bucket's part of the backward pass."""
        typical = sorted(self.stretches, key=lambda stretch: stretch["total"])[len(self.stretches) // 2]
        named = {name: typical[name] for name in ("forward", "backward", "update", "data")}
        bucketed = {}
        for L, turns in self.ready.items():
            early = [statistics.median(column) for column in zip(*turns)]
            bucketed[L] = [*early, max(0.0, named["backward"] - sum(early))]
        return Compute(**named, other=max(0.0, typical["total"] - sum(named.values())), buckets=bucketed)

    def _backward_of(self, early: list[Bucket]) -> list[float]:
        """Seconds of a backward pass for each of these buckets, after the one before, on the slowest rank of each."""
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
