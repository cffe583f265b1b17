"""Pipe-SGD: a pipeline of iterations, K wide, with a communication thread (Pipe-SGD Algorithm 1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro.common.errors import InputError
from repro.training.buckets import block_sizes, segments
from repro.training.worker import Worker
from strategies.base import StepReport
from strategies.shared.data_parallel import AllreduceOptions, DataParallel
from strategies.shared.bucketed import SegmentedAllreduce


@dataclass
class Options(AllreduceOptions):
    K: int = 2  # iteration dependency: an update uses the gradients of the K-th last iteration
    warmup_epochs: float = 0  # D-Sync (K = 1) before the pipeline starts
    segments: int = 1  # L of equation (6): runs of blocks whose gradients are communicated one by one
    staleness_lr: bool = False  # lr / max(1, staleness of the update's gradient)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.K, int) or self.K < 1:
            raise InputError(f"strategy.K={self.K}: must be a whole number, 1 (D-Sync) or more; the paper uses 2")
        if not isinstance(self.warmup_epochs, int | float) or self.warmup_epochs < 0:
            raise InputError(f"strategy.warmup_epochs={self.warmup_epochs}: must be a number, 0 or more")
        if not isinstance(self.segments, int) or isinstance(self.segments, bool) or self.segments < 1:
            raise InputError(f"strategy.segments={self.segments}: must be a whole number, 1 (sequential) or more")
        if not isinstance(self.staleness_lr, bool):
            raise InputError(f"strategy.staleness_lr={self.staleness_lr}: must be true or false")


@dataclass
class Pending:
    """An iteration's gradient from its backward pass to its update."""

    buffer: torch.Tensor  # (n,)
    updates: int  # made before its weights were read
    sums: list[list[torch.Tensor]]  # wire blocks of the aggregated segments, in the order of communication


class PipeSGD(DataParallel):
    """Algorithm 1. A step is lines 6 to 10 of iteration t and then lines 3 to 5 of iteration t + 1.

    So a step leaves updated weights behind, and K = 1 is D-Sync step for step. Aggregated gradients of iterations up to
    0 are zero (communication thread, line 1): an update with them changes nothing and is left out, also where an
    optimizer with momentum or weight decay would move. Each gradient is applied exactly once: those still under way at
    the end are applied by `drain`.

    With `segments` = L above 1 gradients are communicated inside the iteration too (3.1, "pipelined gradient
    communication", Figure 2 (b)): the backward pass hands over each segment as soon as it is complete, the last first.
    All of them are aggregated before the update. The limits are l_up + l_for + l_back and L allreduces; equation (6)
    prints only the first segment's backward pass in the former, which one device cannot do.

    `staleness_lr`: an update with a gradient that is tau updates old takes lr / max(1, tau) (Zhang, Gupta, Lian, Liu,
    "Staleness-aware Async-SGD", IJCAI 2016); tau is K - 1 in steady state, less while the pipeline fills.
    """

    name = "pipe_sgd"
    requires = frozenset({"threads"})
    Options = Options
    neutral = {"K": 1}  # noqa: RUF012

    @classmethod
    def check(cls, options: Options, run: Mapping[str, Any]) -> None:
        if options.warmup_epochs and options.warmup_epochs >= run["epochs"]:
            raise InputError(
                f"strategy.warmup_epochs={options.warmup_epochs:g}: must be less than epochs={run['epochs']:g}, "
                "or the pipeline never starts (D-Sync is strategy=dsync)"
            )

    @classmethod
    def check_model(cls, options: Options, sizes: Sequence[int]) -> None:
        trained = sum(size > 0 for size in sizes)
        if options.segments > trained:
            raise InputError(
                f"strategy.segments={options.segments}: the model has {trained} blocks with parameters to train; "
                f"must be 1 to {trained}"
            )

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        options, part = self.options, worker.model_shard
        self.check_model(options, block_sizes(part.blocks))
        self.warmup = round(options.warmup_epochs * worker.iterations_per_epoch)
        cut = segments(part.blocks, options.segments)[::-1]  # in the order of communication
        self.exchange = SegmentedAllreduce(worker, cut, options)
        # the gradient of each iteration under way needs a buffer of its own
        self.buffers = deque(part.empty() for _ in range(options.K))
        self.pending: deque[Pending] = deque()  # handed over and not yet used, oldest first
        self.updates = 0

    def step(self) -> StepReport:
        buffer, updates = self.buffers.popleft(), self.updates
        if len(self.exchange) == 1:
            report = self.local_gradient(buffer)  # lines 6, 7, 8
            self.exchange.hand_over(0, buffer)  # lines 9, 10
        else:
            report = self._segmented_gradient(buffer)
        self.pending.append(Pending(buffer, updates, []))
        K = 1 if self.iteration <= self.warmup else self.options.K
        while len(self.pending) >= K:
            report.staleness += (self._apply_next(),)
        return report

    def _segmented_gradient(self, buffer: torch.Tensor) -> StepReport:
        """Lines 6 to 10 with pipelined gradient communication: segments leave during the backward pass."""
        minibatch = self.minibatch()
        loss = self.exchange.gradients(minibatch, buffer)
        self.iteration += 1
        return StepReport(loss, (minibatch,), self.worker.batches.size)

    def _apply_next(self) -> int:
        """Update with the oldest gradient under way; returns its staleness."""
        oldest = self.pending[0]
        if len(oldest.sums) < len(self.exchange):
            with self.worker.clock.phase("communicate"):  # line 3: wait for the aggregated gradient of iteration t - K
                self._await(oldest)
        self.pending.popleft()
        self.exchange.decompress(oldest.sums, oldest.buffer)  # line 4
        staleness = self.updates - oldest.updates
        lr_factor = 1 / max(1, staleness) if self.options.staleness_lr else 1.0
        self.worker.update(oldest.buffer, lr_factor)  # line 5
        self.updates += 1
        self.buffers.append(oldest.buffer)
        return staleness

    def _await(self, pending: Pending) -> None:
        """Sums arrive in the order in which they were handed over: whole iterations, oldest first."""
        while len(pending.sums) < len(self.exchange):
            pending.sums.append(self.exchange.next_sum())

    def settle(self) -> None:
        if self.pending and len(self.pending[-1].sums) < len(self.exchange):
            with self.worker.clock.phase("communicate"):
                for pending in self.pending:
                    self._await(pending)

    def drain(self) -> None:
        while self.pending:
            self._apply_next()

    def state_dict(self) -> dict:
        ready = [
            (pending.updates, [[block.clone() for block in blocks] for blocks in pending.sums])
            for pending in self.pending
        ]
        held = {"updates": self.updates, "ready": ready, "allreduces": self.exchange.state_dict()}
        return super().state_dict() | held

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.updates, device = state["updates"], self.worker.model_shard.device
        for updates, sums in state["ready"]:
            blocks = [[block.to(device) for block in segment] for segment in sums]
            self.pending.append(Pending(self.buffers.popleft(), updates, blocks))
        self.exchange.load_state_dict(state["allreduces"])

    def close(self) -> None:
        self.exchange.close()
