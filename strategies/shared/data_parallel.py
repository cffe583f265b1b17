"""Base classes of data parallelism: every worker computes a gradient on its own minibatch, then they exchange."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from repro.core.errors import InputError
from repro.core.fields import Count
from repro.experiment import limits
from repro.fabric.base import MAIN
from repro.fabric.collectives import DEFAULT_PIECES
from repro.fabric.collectives.compressed import CompressedAllreduce, check_codec
from repro.fabric.option_names import AllreduceName, CodecName
from repro.strategies.base import StepReport, Strategy, describe_method
from repro.training.worker import Worker


@dataclass
class AllreduceOptions:
    """Options of strategies whose exchange is an allreduce."""

    codec: CodecName = "none"
    algorithm: AllreduceName = "ring"
    # of a block, with algorithm ring_pipelined only
    pieces: Annotated[Count, Field(le=limits.PIECES)] = DEFAULT_PIECES

    def __post_init__(self) -> None:
        check_codec(self.codec, self.algorithm)
        if self.algorithm == "server":  # sums only its clients' vectors, without the vector of the server's rank
            raise InputError("strategy.algorithm=server: the server needs a rank of its own; use strategy=ps_sync")

    def allreduce(self, worker: Worker, n: int, channel: int = MAIN, index: int = 0) -> CompressedAllreduce:
        """An allreduce of vectors (n,); allreduces of a rank with different `index` have different codec noise.

        On NCCL, whose allreduce sums in the network, the default algorithm is `auto`.
        """
        seed, algorithm = 1000 * worker.seed + index, self.algorithm
        if worker.fabric.native_by_default and self.codec == "none" and algorithm == type(self).algorithm:
            algorithm = "auto"
        return CompressedAllreduce(worker.fabric, n, self.codec, algorithm, channel, self.pieces, seed)


def compress_phase(worker: Worker, allreduce: CompressedAllreduce) -> AbstractContextManager:
    """Phase "compress", also inside another phase; no phase without a codec."""
    return nullcontext() if allreduce.codec.lossless else worker.clock.interruption("compress")


class DataParallel(Strategy):
    """Every worker holds the whole model and takes every `workers`-th minibatch."""

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.iteration = 0
        self.gradient = worker.model_shard.empty()

    def minibatch(self) -> int:
        """This rank's: iteration t has minibatches t * workers .. (t + 1) * workers - 1, in rank order."""
        return self.iteration * self.worker.workers + self.worker.rank

    def local_gradient(self, out: torch.Tensor, gradient_ready: Callable[[int], None] | None = None) -> StepReport:
        """Compute this rank's gradient on its next minibatch into `out` (n,).

        gradient_ready: called during the backward pass with each block whose gradient is complete; it then has to fill
        `out` itself.
        """
        worker = self.worker
        loss = worker.gradients(self.minibatch(), gradient_ready=gradient_ready)
        if worker.arithmetic and gradient_ready is None:
            with worker.clock.phase("backward"):
                worker.model_shard.gradient(out)
        return self.advanced(loss)

    def advanced(self, loss: torch.Tensor | None) -> StepReport:
        """The report of an iteration whose gradient is computed; starts the next iteration."""
        minibatch = self.minibatch()
        self.iteration += 1
        return StepReport(loss, (minibatch,), self.worker.batches.size)

    def state_dict(self) -> dict:
        return {"iteration": self.iteration}

    def load_state_dict(self, state: dict) -> None:
        self.iteration = state["iteration"]


class GradientStrategy(DataParallel):
    """Gradient, exchange, update. Authors override `exchange`; see docs/strategy.md for a complete example."""

    def step(self) -> StepReport:
        report = self.local_gradient(self.gradient)
        total = self.exchange(self.gradient)
        mine = self.gradient
        if not isinstance(total, torch.Tensor) or (total.shape, total.dtype) != (mine.shape, mine.dtype):
            raise InputError(
                f"{describe_method(self, 'exchange')} must return the sum of the workers' gradients, "
                f"{_described(mine)}; it returned {_described(total)}"
            )
        self.worker.update(total)
        return report

    @abstractmethod
    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        """The sum of all workers' gradients (n,), which the update averages, from this rank's (n,).

        Put communication in `self.worker.clock.phase("communicate")`, compression in phase "compress". `gradient` may
        be overwritten and returned.
        """


def _described(value: object) -> str:
    """A tensor's shape and type, or the type of another value."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} and type {value.dtype}"
    return f"a value of type {type(value).__name__}"


class AllreduceStrategy(DataParallel):
    """One allreduce of a vector (n,) for each iteration, with the codec and algorithm of the options."""

    Options = AllreduceOptions

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.allreduce = self.options.allreduce(worker, worker.model_shard.size)

    @property
    def alone(self) -> bool:
        """Whether an allreduce would change nothing: one worker, and no lossy codec."""
        return self.worker.workers == 1 and self.allreduce.codec.lossless

    def summed(self, vector: torch.Tensor) -> torch.Tensor:
        """The sum of all workers' vectors (n,), in place."""
        with compress_phase(self.worker, self.allreduce):
            blocks = self.allreduce.compress(vector)  # without a codec views of the vector
        with self.worker.clock.phase("communicate"):
            blocks = self.allreduce.reduce(blocks)
        with compress_phase(self.worker, self.allreduce):
            return self.allreduce.decompress(blocks, vector)

    def state_dict(self) -> dict:
        return super().state_dict() | {"allreduce": self.allreduce.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.allreduce.load_state_dict(state["allreduce"])
