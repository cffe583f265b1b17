"""Runs residual, selection and exchange of sparse gradients on the main task or on a separate one; densities."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from repro.core.errors import InputError
from repro.core.fields import Share
from repro.fabric.sparse.gradients import Sparse
from repro.training.buckets import block_buckets
from repro.training.worker import Worker


class Algorithm(Protocol):
    """The three parts of an iteration between its gradient and its update."""

    worker: Worker

    def accumulate(self, gradient: torch.Tensor, start: int, end: int) -> None:
        """Add elements `start` to `end` - 1 of a gradient (n,) to the residual."""

    def select(self, iteration: int) -> Sparse:
        """Take the largest elements out of the residual."""

    def aggregate(self, mine: Sparse) -> list[Sparse]:
        """Sparse vectors whose sum all workers apply, from this worker's elements."""


class OnMainTask:
    """Runs everything between the backward pass and the update, as in the measurements of gTop-k section IV-E."""

    def __init__(self, algorithm: Algorithm):
        self.algorithm, self.results = algorithm, deque[list[Sparse]]()

    def accumulating(self, gradient: torch.Tensor) -> None:
        """No `gradient_ready` callback."""

    def finish(self, iteration: int, gradient: torch.Tensor) -> None:
        """Called after an iteration's backward pass with its complete gradient (n,)."""
        algorithm, clock = self.algorithm, self.algorithm.worker.clock
        with clock.phase("compress"):
            algorithm.accumulate(gradient, 0, gradient.numel())
            mine = algorithm.select(iteration)
        with clock.phase("communicate"):
            self.results.append(algorithm.aggregate(mine))

    def receive(self) -> list[Sparse]:
        """The result of the oldest iteration that was not received yet."""
        return self.results.popleft()

    def close(self) -> None:
        """No task to end."""


class OnOwnTask:
    """Runs on a separate task, which adds a block's gradient to the residual during the backward pass of the blocks
    before it (gTop-k section III-F). The same bits as on the main task."""

    def __init__(self, algorithm: Algorithm):
        self.algorithm, self.worker = algorithm, algorithm.worker
        buckets = block_buckets(self.worker.model_shard.blocks)
        self.bucket_of = {block: bucket for bucket in buckets for block in bucket.trained}
        fabric = self.worker.fabric
        self.work, self.selected, self.results = (fabric.queue() for _ in range(3))
        self.task = fabric.spawn(self._sparsify, "sparsification")

    def _sparsify(self) -> None:
        algorithm, clock = self.algorithm, self.worker.clock
        while (item := self.work.get(timeout=float("inf"))) is not None:
            if isinstance(item, tuple):
                with clock.phase("compress"):
                    algorithm.accumulate(*item)
                continue
            with clock.phase("compress"):
                mine = algorithm.select(item)
            self.selected.put(None)
            with clock.phase("communicate"):
                result = algorithm.aggregate(mine)
            self.results.put(result)

    def accumulating(self, gradient: torch.Tensor) -> Callable[[int], None]:
        """A `gradient_ready` callback that hands over each block's gradient through `gradient` (n,)."""

        def block_ready(block: int) -> None:
            if bucket := self.bucket_of.get(block):
                if self.worker.arithmetic:
                    bucket.gradient(gradient)
                self.work.put((gradient, bucket.start, bucket.end))

        return block_ready

    def finish(self, iteration: int, gradient: torch.Tensor) -> None:
        self.work.put(iteration)

    def receive(self) -> list[Sparse]:
        with self.worker.clock.phase("compress"):
            self.selected.get()
        with self.worker.clock.phase("communicate"):
            return self.results.get()

    def close(self) -> None:
        self.work.put(None)
        self.task.join()


@dataclass(frozen=True)
class Densities:
    """The share of gradients that a worker sends in each epoch: warm-up densities, then rho (gTop-k section IV-B)."""

    density: Share
    warmup: Sequence[Share] = ()

    def at(self, epoch: int) -> float:
        """The density of an epoch, from 0."""
        return self.warmup[epoch] if epoch < len(self.warmup) else self.density

    def k(self, n: int, epoch: int) -> int:
        """The number of elements to send, of n."""
        return round(self.at(epoch) * n)

    def check(self, n: int) -> None:
        """InputError for a density that selects none of n gradients."""
        for density in (self.density, *self.warmup):
            if round(density * n) < 1:
                raise InputError(
                    f"strategy.density={density:g}: k = density x {n} parameters rounds to 0; "
                    f"must be above {0.5 / n:.2g}"
                )
