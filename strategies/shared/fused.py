"""Horovod's thread in virtual time, where Horovod itself does not run."""

from __future__ import annotations

import math

import torch

from repro.fabric.base import BACKGROUND
from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.training.buckets import block_sizes
from repro.training.worker import Worker

MIB = 2**20


class Fused(DataParallel):
    """At each tick of its cycle, the thread sums all gradients that are ready, as many as its buffer holds, at once.

    Ranks must be equally fast, so that they fuse the same. Its options are Horovod's.
    """

    name = "fused"
    requires = frozenset({"threads"})

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.sizes = block_sizes(worker.model_shard.blocks)
        self.ready, self.summed = worker.fabric.queue(), worker.fabric.queue()
        self.task = worker.fabric.spawn(self._communicate, "horovod")

    def step(self) -> StepReport:
        report = self.local_gradient(self.gradient, self._complete)
        with self.worker.clock.phase("communicate"):
            for _ in filter(None, self.sizes):
                self.summed.get()
        self.worker.update(self.gradient)
        return report

    def _complete(self, block: int) -> None:
        if self.sizes[block]:
            self.ready.put(self.sizes[block])

    def _communicate(self) -> None:
        fabric, cycle_s, most = self.worker.fabric, self.options.cycle_ms / 1e3, self.options.fusion_mb * MIB / 4
        waiting: list[int | None] = []
        while True:
            waiting.append(self.ready.get(timeout=float("inf")) if not waiting else waiting.pop())
            if waiting[0] is None:
                return
            if cycle_s:
                fabric.sleep(math.ceil(fabric.now() / cycle_s) * cycle_s - fabric.now())
            fused = [waiting.pop()]
            while len(self.ready):
                item = self.ready.get()
                if item is None or sum(filter(None, fused)) + item > most:
                    waiting.append(item)
                    break
                fused.append(item)
            vector = torch.empty(sum(filter(None, fused)), device=self.gradient.device)
            with self.worker.clock.phase("communicate"):
                fabric.allreduce(vector, channel=BACKGROUND, algorithm="native").wait()
            for item in fused:
                self.summed.put(item)

    def close(self) -> None:
        self.ready.put(None)
        self.task.join()
