"""What a strategy is handed: this rank's place, model, data, fabric and clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from repro.clock import Clock
from repro.fabric.base import Fabric
from repro.part import Part
from repro.timing.device import BlockSeconds


@dataclass
class Worker:
    """One rank of a run.

    workers   ranks that compute gradients; they are ranks 0 .. workers - 1 of the fabric, servers come after them
    batches   batches[minibatch_id] -> (x, y); ids count over the whole run, iteration t uses t * workers + rank
    part      the blocks this rank holds (`whole model` for data-parallel ranks and servers)
    blocks    modelled seconds of each block's passes in virtual time; None where time is real
    arithmetic  False: timing only, on meta tensors, nothing is computed
    """

    workers: int
    fabric: Fabric
    clock: Clock
    part: Part
    batches: Any
    iterations_per_epoch: int
    seed: int
    blocks: BlockSeconds | None = None
    arithmetic: bool = True
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = functional.cross_entropy

    def __post_init__(self) -> None:
        self.stochastic = {  # the blocks that draw random numbers
            index
            for index, block in enumerate(self.part.blocks)
            if any("Dropout" in type(module).__name__ for module in block.modules())
        }
        self.minibatch = -1  # the one being worked on

    @property
    def rank(self) -> int:
        return self.fabric.rank

    @property
    def is_server(self) -> bool:
        return self.rank >= self.workers

    def gradients(
        self,
        minibatch: int,
        before_block: Callable[[int], None] | None = None,
        gradient_ready: Callable[[int], None] | None = None,
        through: Callable[[Callable[[], torch.Tensor]], torch.Tensor] | None = None,
    ) -> torch.Tensor | None:
        """Load minibatch `minibatch`, forward, backward: gradients end in `part.parameters[i].grad`.

        Returns the mean loss over the minibatch as a device tensor (None without arithmetic). For the three hooks see
        `Part.forward_backward`; with the first two each block's time passes apart, so that others can overlap it.
        """
        if not self.arithmetic:
            return self._pass_time(before_block, gradient_ready)
        with self.clock.phase("data"):
            x, y = self.batches[minibatch]
        self.minibatch = minibatch
        simulated = self.blocks is not None
        loss = self.part.forward_backward(
            x, y, self.loss_function, self._around, before_block, None if simulated else gradient_ready, through
        )
        if simulated:  # the arithmetic took no virtual time: pass it now, block by block
            self._backward_time(gradient_ready)
        return loss

    @contextmanager
    def _around(self, name: str, block: int) -> Iterator[None]:
        if self.blocks is not None and name == "backward":
            yield
            return
        with self.clock.phase(name):
            with self.fabric.compute(self.blocks.forward[block] if self.blocks else None):
                if name == "forward" and block in self.stochastic and self.arithmetic:
                    # the same dropout whatever ran before, here or on another virtual rank between two blocks: resume
                    # and evaluation change nothing
                    torch.manual_seed((self.seed * 1_000_003 + self.minibatch) * 1009 + block)
                yield

    def _backward_time(self, gradient_ready: Callable[[int], None] | None) -> None:
        for block in reversed(range(len(self.blocks.backward))):
            with self.clock.phase("backward"), self.fabric.compute(self.blocks.backward[block]):
                pass
            if gradient_ready:
                gradient_ready(block)

    def _pass_time(self, before_block: Any, gradient_ready: Any) -> None:
        for block in range(len(self.blocks.forward)):
            if before_block:
                before_block(block)
            with self._around("forward", block):
                pass
        self._backward_time(gradient_ready)

    def update(self, total: torch.Tensor | None = None, lr_factor: float = 1.0, summands: int | None = None) -> None:
        """One optimizer step, charged to phase "update", with the mean of a sum (n,) over the workers.

        The mean where Pipe-SGD's Algorithm 1 prints a sum: ERRATA. None: with the part's own gradients.
        `lr_factor`: of the learning rate, for this step alone. `summands`: how many gradients the sum is of, if not one
        of each worker.
        """
        with self.clock.phase("update"):
            with self.fabric.compute(self.fabric.costs.seconds("update", 4 * self.part.size)):
                if self.arithmetic:
                    self.part.update(None if total is None else total.div_(summands or self.workers), lr_factor)
