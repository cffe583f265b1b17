"""A synthetic model of a given size whose passes take given times: strategies communicate without learning.

Its computation sleeps, as a process does whose GPU computes, or multiplies matrices, so that ranks that share cores
slow each other's communication down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.data.minibatches import Minibatches
from repro.experiment.optimizer import Optimizer
from repro.fabric.base import Fabric
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker

SIDE = 128  # of the matrices that `Multiply` multiplies


@dataclass(frozen=True)
class Workload:
    """nbytes: size of the gradient, in `blocks` equal blocks; forward_s, backward_s: seconds of all blocks together.

    activation: bytes that a block sends to the next.
    """

    nbytes: int
    blocks: int
    forward_s: float
    backward_s: float
    activation: int = FLOAT32

    @property
    def elements(self) -> int:
        """Parameters of a block."""
        return max(1, self.nbytes // FLOAT32 // self.blocks)


class Sleep:
    """Sleep on the fabric's clock, which keeps no core busy."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric

    def __call__(self, seconds: float) -> None:
        self.fabric.sleep(seconds)


class Multiply:
    """Keep a core busy with work that takes the given seconds on an idle machine (calibrated when created)."""

    def __init__(self, fabric: Fabric) -> None:
        self.a, self.b, self.out = (torch.rand(SIDE, SIDE) for _ in range(3))
        self.each_s = min(self._timed(200) for _ in range(5)) / 200

    def _timed(self, times: int) -> float:
        start = time.perf_counter()
        self._multiply(times)
        return time.perf_counter() - start

    def _multiply(self, times: int) -> None:
        for _ in range(times):
            torch.mm(self.a, self.b, out=self.out)

    def __call__(self, seconds: float) -> None:
        self._multiply(round(seconds / self.each_s))


class _Pass(torch.autograd.Function):
    """x -> x; the gradient of the weights is the block's own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor, block: TimedBlock) -> torch.Tensor:
        block.work(block.forward_s)
        ctx.block = block
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        block = ctx.block
        block.work(block.backward_s)
        return gradient, block.gradient, None


class TimedBlock(nn.Module):
    """Weights (elements,) whose gradient is the same normal draw (`seed`) in every step."""

    def __init__(
        self, elements: int, forward_s: float, backward_s: float, work: Callable[[float], None], device: str, seed: int
    ):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(elements, device=device))
        self.gradient = torch.empty(elements, device=device)
        if device != "meta":
            self.gradient.normal_(generator=torch.Generator(device).manual_seed(seed))
        self.forward_s, self.backward_s, self.work = forward_s, backward_s, work

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Pass.apply(x, self.weights, self)


class NoData(Minibatches):
    """Minibatches of zeros: one sample of `nbytes` bytes."""

    size, per_epoch = 1, 1

    def __init__(self, nbytes: int, device: str):
        x = torch.zeros(1, max(1, nbytes // FLOAT32), requires_grad=True, device=device)
        self.batch = x, torch.zeros(1, 1, device=device)

    def __getitem__(self, minibatch: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.batch


def mean_error(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x - y).mean()


def synthetic_worker(
    fabric: Fabric,
    workers: int,
    workload: Workload,
    work: Callable[[float], None],
    modelled: BlockSeconds | None = None,
) -> Worker:
    """A worker that trains the synthetic model.

    On a fabric whose messages may have sizes without contents (virtual time) it computes nothing; its blocks take the
    workload's seconds, or `modelled` ones.
    """
    times = workload.forward_s / workload.blocks, workload.backward_s / workload.blocks
    if "sizes" in fabric.capabilities and modelled is None:
        forward, backward = ([seconds] * workload.blocks for seconds in times)
        modelled = BlockSeconds(forward, backward)
    device = "meta" if modelled else "cpu"
    seeds = range(fabric.rank * workload.blocks, (fabric.rank + 1) * workload.blocks)
    blocks = [TimedBlock(workload.elements, *times, work, device, seed) for seed in seeds]
    return worker_of(fabric, workers, nn.Sequential(*blocks), workload.activation, device, modelled)


def worker_of(
    fabric: Fabric, workers: int, model: nn.Sequential, input_bytes: int, device: str, blocks: BlockSeconds | None
) -> Worker:
    """A worker that trains a model without data; blocks: their modelled seconds, instead of arithmetic."""
    return Worker(
        workers=workers,
        fabric=fabric,
        clock=Clock(fabric),
        model_shard=ModelShard(model, Optimizer(lr=0.0), torch.device(device)),
        batches=NoData(input_bytes, device),
        iterations_per_epoch=1_000_000,
        seed=0,
        blocks=blocks,
        arithmetic=blocks is None,
        loss_function=mean_error,
    )
