"""A model of a given size whose passes take given times: what a strategy communicates, without what it would learn.

Its computation sleeps, as a process does whose GPU computes; `busy` computations multiply matrices instead, and then
ranks that share cores slow each other's communication down.
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

SIDE = 128  # of the matrices that a busy computation multiplies
OPTIMIZER = Optimizer(lr=0.0)


@dataclass(frozen=True)
class Workload:
    """nbytes: of the gradient, in `blocks` equal blocks; forward_s, backward_s: of all blocks, asked for.

    activation: bytes of what goes from a block to the next.
    """

    nbytes: int
    blocks: int
    forward_s: float
    backward_s: float
    activation: int = FLOAT32

    @property
    def elements(self) -> int:
        """Of a block."""
        return max(1, self.nbytes // FLOAT32 // self.blocks)


class Sleep:
    """Let so many seconds pass on the fabric's clock, without a core."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric

    def __call__(self, seconds: float) -> None:
        self.fabric.sleep(seconds)


class Multiply:
    """Keep a core busy for as much work as takes so many seconds on an idle machine, which this one is when made."""

    def __init__(self, fabric: Fabric) -> None:
        self.a, self.b, self.out = (torch.rand(SIDE, SIDE) for _ in range(3))
        self.each_s = min(self._timed(200) for _ in range(5)) / 200

    def _timed(self, times: int) -> float:
        began = time.perf_counter()
        self._multiply(times)
        return time.perf_counter() - began

    def _multiply(self, times: int) -> None:
        for _ in range(times):
            torch.mm(self.a, self.b, out=self.out)

    def __call__(self, seconds: float) -> None:
        self._multiply(round(seconds / self.each_s))


class _Pass(torch.autograd.Function):
    """x -> x, with the block's given gradient for the weights."""

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
    """Weights (elements,) whose gradient is the same normal draw (`seed`) in each step."""

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
    """Minibatches of zeros: one sample of so many bytes."""

    size, per_epoch = 1, 1

    def __init__(self, nbytes: int, device: str):
        x = torch.zeros(1, max(1, nbytes // FLOAT32), requires_grad=True, device=device)
        self.batch = x, torch.zeros(1, 1, device=device)

    def __getitem__(self, minibatch: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.batch


def mean_error(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x - y).mean()


def worker(
    fabric: Fabric,
    workers: int,
    workload: Workload,
    work: Callable[[float], None],
    modelled: BlockSeconds | None = None,
) -> Worker:
    """A worker that trains the model; where messages may be without contents (in virtual time) without arithmetic, with
    the workload's seconds or, where given, the `modelled` ones of each block."""
    times = workload.forward_s / workload.blocks, workload.backward_s / workload.blocks
    if "sizes" in fabric.capabilities and modelled is None:
        forward, backward = ([seconds] * workload.blocks for seconds in times)
        modelled = BlockSeconds(forward, backward)
    device = "meta" if modelled else "cpu"
    seeds = range(fabric.rank * workload.blocks, (fabric.rank + 1) * workload.blocks)
    blocks = [TimedBlock(workload.elements, *times, work, device, seed) for seed in seeds]
    return Worker(
        workers=workers,
        fabric=fabric,
        clock=Clock(fabric),
        model_shard=ModelShard(nn.Sequential(*blocks), OPTIMIZER, torch.device(device)),
        batches=NoData(workload.activation, device),
        iterations_per_epoch=1_000_000,
        seed=0,
        blocks=modelled,
        arithmetic=modelled is None,
        loss_function=mean_error,
    )
