"""Pipe-SGD: a pipeline of iterations, K wide, with a communication thread (Pipe-SGD Algorithm 1)."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass

from repro.errors import InputError
from repro.fabric.base import BACKGROUND
from repro.fabric.compressed import CompressedAllreduce, check
from repro.worker import Worker
from strategies.base import StepReport
from strategies.data_parallel import DataParallel


@dataclass
class Options:
    K: int = 2  # iteration dependency: an update uses the gradients of the K-th last iteration
    codec: str = "none"
    algorithm: str = "ring"
    warmup_epochs: float = 0  # D-Sync (K = 1) before the pipeline starts

    def __post_init__(self) -> None:
        if not isinstance(self.K, int) or self.K < 1:
            raise InputError(f"strategy.K={self.K}: must be a whole number, 1 (D-Sync) or more; the paper uses 2")
        if not isinstance(self.warmup_epochs, int | float) or self.warmup_epochs < 0:
            raise InputError(f"strategy.warmup_epochs={self.warmup_epochs}: must be a number, 0 or more")
        check(self.codec, self.algorithm)


class PipeSGD(DataParallel):
    """Algorithm 1. A step is lines 6 to 10 of iteration t and then lines 3 to 5 of iteration t + 1.

    So a step leaves updated weights behind, and K = 1 is D-Sync step for step. Aggregated gradients of iterations up to
    0 are zero (communication thread, line 1): an update with them changes nothing and is left out, also where an
    optimizer with momentum or weight decay would move. Each gradient is applied exactly once: those still under way at
    the end are applied by `drain`.
    """

    name = "pipe_sgd"
    requires = frozenset({"threads"})
    Options = Options
    neutral = {"K": 1}  # noqa: RUF012

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.warmup = round(self.options.warmup_epochs * worker.iterations_per_epoch)
        self.allreduce = CompressedAllreduce(
            worker.fabric, worker.part.size, self.options.codec, self.options.algorithm, BACKGROUND
        )
        # the gradient of each iteration under way needs a buffer of its own
        self.buffers = deque(worker.part.empty() for _ in range(self.options.K))
        self.local, self.summed = worker.fabric.queue(), worker.fabric.queue()
        self.ready: deque = deque()  # (buffer, blocks) aggregated, not yet used
        self.under_way = 0  # handed over and not yet used, those in `ready` included
        self.task = worker.fabric.spawn(self.communicate, "communication")

    def communicate(self) -> None:
        """The communication thread: for t = 1 ... wait for the local gradient, allreduce it, mark the sum as ready."""
        while (item := self.local.get(timeout=float("inf"))) is not None:
            buffer, blocks = item
            with self.worker.clock.phase("communicate"):
                blocks = self.allreduce.reduce(blocks)
            self.summed.put((buffer, blocks))

    def step(self) -> StepReport:
        buffer = self.buffers.popleft()
        report = self.local_gradient(buffer)  # lines 6, 7, 8
        with self._compressing():  # line 9
            blocks = self.allreduce.compress(buffer)
        self.local.put((buffer, blocks))  # line 10
        self.under_way += 1
        K = 1 if self.iteration <= self.warmup else self.options.K
        while self.under_way >= K:
            self._apply_next()
        return report

    def _apply_next(self) -> None:
        if not self.ready:
            with self.worker.clock.phase("communicate"):  # line 3: wait for the aggregated gradient of iteration t - K
                self.ready.append(self.summed.get())
        buffer, blocks = self.ready.popleft()
        with self._compressing():  # line 4
            total = self.allreduce.decompress(blocks, buffer)
        self.worker.update(total)  # line 5
        self.buffers.append(buffer)
        self.under_way -= 1

    def _compressing(self):
        return nullcontext() if self.allreduce.codec.lossless else self.worker.clock.phase("compress")

    def settle(self) -> None:
        if len(self.ready) < self.under_way:
            with self.worker.clock.phase("communicate"):
                while len(self.ready) < self.under_way:
                    self.ready.append(self.summed.get())

    def drain(self) -> None:
        while self.under_way:
            self._apply_next()

    def state_dict(self) -> dict:
        return super().state_dict() | {"ready": [[b.clone() for b in blocks] for _, blocks in self.ready]}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        for blocks in state["ready"]:
            self.ready.append((self.buffers.popleft(), [block.to(self.worker.part.device) for block in blocks]))
        self.under_way = len(self.ready)

    def close(self) -> None:
        self.local.put(None)
        self.task.join()
