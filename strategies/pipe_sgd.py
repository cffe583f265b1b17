"""Pipe-SGD: a pipeline of K iterations with a communication thread (Pipe-SGD Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, allreduce_s, assemble_step, codec_s
from repro.core.errors import InputError
from repro.core.fields import Count, NonNegative
from repro.experiment import limits
from repro.strategies.base import RunFacts, StepReport
from repro.strategies.shared.bucketed import BucketedAllreduce
from repro.strategies.shared.data_parallel import AllreduceOptions, DataParallel
from repro.strategies.shared.pending_updates import Pending, PendingUpdates
from repro.training.buckets import balanced_buckets, block_sizes
from repro.training.worker import Worker


@dataclass
class PipeSGDOptions(AllreduceOptions):
    # iteration dependency: an update uses the gradients of the K-th last iteration
    K: Annotated[Count, Field(le=limits.DEPTH)] = 2
    warmup_epochs: NonNegative = 0  # D-Sync (K = 1) before the pipeline starts
    segments: Count = 1  # L of equation (6): buckets of blocks, whose gradients are sent one after the other
    staleness_lr: bool = False  # lr / max(1, staleness of the update's gradient)


class PipeSGD(DataParallel):
    """Algorithm 1. A step is lines 6 to 10 of iteration t and then lines 3 to 5 of iteration t + 1.

    So a step ends with updated weights, and K = 1 is D-Sync step for step. Aggregated gradients of iterations up to 0
    are zero (communication thread, line 1); updates with them are left out, also if momentum or weight decay would
    change the weights. Each gradient is applied exactly once; `drain` applies the last ones.

    With `segments` = L above 1 gradients are also sent during the iteration (3.1, "pipelined gradient communication",
    Figure 2 (b)): each bucket as soon as the backward pass has completed it, the last first. The update waits for all
    of them. The limits are l_up + l_for + l_back and L allreduces; instead of l_back equation (6) prints only the first
    bucket's backward pass, which one device cannot do.

    `staleness_lr`: an update with a gradient that is tau updates old uses lr / max(1, tau) (Zhang, Gupta, Lian, Liu,
    "Staleness-aware Async-SGD", IJCAI 2016); tau is K - 1 in steady state, less while the pipeline fills.
    """

    name = "pipe_sgd"
    requires = frozenset({"threads"})
    Options = PipeSGDOptions
    neutral = {"K": 1}  # noqa: RUF012

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: PipeSGDOptions) -> Step:
        """With K = 2: computation or communication, whichever is longer (equation (4)).

        A late worker delays at most every second iteration. The step is the longest of the main line with its own
        delays, uninterrupted communication, and half of a path through a late worker's iteration and an allreduce.
        """
        compress = codec_s(setting, options.codec)
        line = setting.computation_s + setting.update_s + compress
        communication = allreduce_s(setting.nbytes, setting, place, options.codec)
        late = setting.late_s
        seconds = max(line + late / place.workers, communication, (line + late + communication) / 2)
        waited = max(0.0, min(late, seconds - max(line, communication)))
        exposed = seconds - line - waited
        return assemble_step(setting, exposed, communication - max(0.0, exposed), compress, waited)

    @classmethod
    def check(cls, options: PipeSGDOptions, run: RunFacts) -> None:
        if options.warmup_epochs and options.warmup_epochs >= run.epochs:
            raise InputError(
                f"strategy.warmup_epochs={options.warmup_epochs:g}: must be less than epochs={run.epochs:g}, "
                "or the pipeline never starts (D-Sync is strategy=dsync)"
            )

    @classmethod
    def check_model(cls, options: PipeSGDOptions, sizes: Sequence[int]) -> None:
        trained = sum(size > 0 for size in sizes)
        if options.segments > trained:
            raise InputError(
                f"strategy.segments={options.segments}: the model has {trained} blocks with parameters to train; "
                f"must be 1 to {trained}"
            )

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        options, shard = self.options, worker.model_shard
        self.check_model(options, block_sizes(shard.blocks))
        self.warmup = round(options.warmup_epochs * worker.iterations_per_epoch)
        buckets = balanced_buckets(shard.blocks, options.segments)[::-1]  # in the order of communication
        self.allreduce = BucketedAllreduce(worker, buckets, options)
        buffers = [self.gradient, *(shard.empty() for _ in range(options.K - 1))]
        self.pending = PendingUpdates(buffers, self.allreduce.receive, self.apply)  # line 3

    def step(self) -> StepReport:
        gradient = self.pending.begin()
        if self.options.segments == 1:
            report = self.local_gradient(gradient)  # lines 6, 7, 8
            self.allreduce.send(gradient)  # lines 9, 10
        else:
            report = self.local_gradient(gradient, self.allreduce.sending(gradient))
        report.staleness = self.pending.apply_until(1 if self.iteration <= self.warmup else self.options.K)
        return report

    def apply(self, pending: Pending, staleness: int) -> None:
        """Update with the aggregated gradient of iteration t - K."""
        self.allreduce.decompress(pending.result, pending.buffer)  # line 4
        lr_factor = 1 / max(1, staleness) if self.options.staleness_lr else 1.0
        self.worker.update(pending.buffer, lr_factor)  # line 5

    def settle(self) -> None:
        self.pending.settle()

    def drain(self) -> None:
        self.pending.drain()

    def state_dict(self) -> dict:
        pending = self.pending.state_dict(lambda sums: [[block.clone() for block in blocks] for blocks in sums])
        return super().state_dict() | pending | {"allreduces": self.allreduce.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        device = self.worker.model_shard.device
        self.pending.load_state_dict(state, lambda sums: [[block.to(device) for block in blocks] for blocks in sums])
        self.allreduce.load_state_dict(state["allreduces"])

    def close(self) -> None:
        self.allreduce.close()
