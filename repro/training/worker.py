"""What a strategy is handed: this rank's place, model, data, fabric and clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn import functional

from repro.core.not_none import not_none
from repro.fabric.base import Fabric
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard, Through

MICROBATCH_SEED = 2**44  # apart from each other as no two blocks or minibatches are


class Delays(Protocol):
    """Injected load imbalance (`repro.algorithms.imbalance`)."""

    def delays(self, iteration: int) -> list[float]:
        """Seconds (workers,) that each worker sleeps before the iteration's forward pass."""


@dataclass
class Worker:
    """One rank of a run.

    workers   ranks that compute gradients; they are ranks 0 .. workers - 1 of the fabric, servers come after them
    batches   batches[minibatch_id] -> (x, y); ids count over the whole run, iteration t uses t * workers + rank
    part      the blocks this rank holds (`whole model` for data-parallel ranks and servers)
    blocks    modelled seconds of each block's passes in virtual time; None where time is real
    arithmetic  False: timing only, on meta tensors, nothing is computed
    accumulate  equal parts (microbatches) of a minibatch, each with passes of its own; their gradients are averaged
    imbalance   delays injected before the workers' passes; None: none
    min_compute_s  real seconds to which a gradient computation of nominal length is filled up by sleeping. In virtual
                time the testbed's device says how long passes take, and it counts for nothing
    iterations  of the whole run, for strategies that have to know where it ends
    """

    workers: int
    fabric: Fabric
    clock: Clock
    model_shard: ModelShard
    batches: Any
    iterations_per_epoch: int
    seed: int
    blocks: BlockSeconds | None = None
    arithmetic: bool = True
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = functional.cross_entropy
    accumulate: int = 1
    imbalance: Delays | None = None
    min_compute_s: float | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        self.parameters = self.model_shard.size  # of the whole model
        self.numbers: Sequence[int] = range(len(self.model_shard.blocks))  # of the part's blocks, in the model
        self.stochastic = stochastic(self.model_shard)
        self.minibatch, self.microbatch = -1, 0  # the one being worked on, and its part
        self.work = 1.0  # its computation, as a multiple of one of nominal length
        self.passes_s = 0.0  # real seconds of the last minibatch's passes, where they are padded

    @property
    def rank(self) -> int:
        return self.fabric.rank

    @property
    def is_server(self) -> bool:
        return self.rank >= self.workers

    def keep(self, blocks: Sequence[int]) -> None:
        """Keep these blocks of the model alone. Before the first minibatch."""
        self.model_shard, self.numbers = self.model_shard.keep(blocks), blocks
        self.stochastic = stochastic(self.model_shard)
        if self.blocks:
            forward, backward = self.blocks.forward, self.blocks.backward
            self.blocks = BlockSeconds([forward[block] for block in blocks], [backward[block] for block in blocks])

    def gradients(
        self,
        minibatch: int,
        before_block: Callable[[int], None] | None = None,
        gradient_ready: Callable[[int], None] | None = None,
        through: Through | None = None,
    ) -> torch.Tensor | None:
        """Load minibatch `minibatch`, forward, backward: gradients end in `part.parameters[i].grad`.

        Returns the mean loss over the minibatch as a device tensor (None without arithmetic). For the three hooks see
        `ModelShard.forward_backward`; with the first two each block's time passes apart, so that others can overlap it.

        What blocks carry from the minibatch before is forgotten where this one does not continue it.
        Before all of it comes the iteration's injected delay, if any, and after it the padding.
        """
        self.inject_delay(minibatch // self.workers)
        if self.blocks or self.min_compute_s:  # who need to know how long it takes
            self.work = self.batches.work(minibatch)
        if not self.arithmetic:
            self._pass_time(before_block, gradient_ready, through)
            return None
        began = self.fabric.now()
        with self.clock.phase("data"):
            x, y = self.batches[minibatch]
            if self.model_shard.stateful and self.batches.begins(minibatch):
                self.model_shard.reset_state()
        self.minibatch, losses = minibatch, []
        simulated = self.blocks is not None
        padded = self.min_compute_s is not None and not simulated
        if padded:
            self._pad(began)
            began = self.fabric.now()
        hooks = self._around, before_block, None if simulated else gradient_ready, through
        for number, (inputs, labels) in enumerate(self._microbatches(x, y)):
            self.microbatch = number
            place = number, self.accumulate
            losses.append(
                self.model_shard.forward_backward(inputs, labels, self.loss_function, *hooks, microbatch=place)
            )
        loss = losses[0] if self.accumulate == 1 else torch.stack(losses).mean()
        if simulated:  # the arithmetic took no virtual time: pass it now, block by block
            self._backward_time(gradient_ready)
        elif padded:
            self._await_device()
            self.passes_s = self.fabric.now() - began
        return loss

    def forward(
        self, minibatch: int, x: torch.Tensor | None, y: torch.Tensor | None = None, timed: bool = True
    ) -> torch.Tensor | None:
        """The part's forward pass alone: what comes out of its last block, or the loss where labels are given.

        `backward` goes on from it, at any later time. None without arithmetic. timed: False for one that was done
        before and is only brought back (after a resume): it takes no time and belongs to no phase.
        """
        self.minibatch, self.microbatch, self.work = minibatch, 0, self.batches.work(minibatch) if self.blocks else 1.0
        with self.clock.about(minibatch):
            if not self.arithmetic:
                self._pass_forward(None)
                return None
            activation = not_none(x)
            last = len(self.model_shard.blocks) - 1
            for index, call in enumerate(self.model_shard.calls):
                with self._around("forward", index) if timed else self.seeded(index):
                    activation = call(activation)
                    if index == last and y is not None:
                        activation = self.loss_function(activation, y)
        return activation

    def backward(
        self,
        minibatch: int,
        output: torch.Tensor | None,
        gradient: torch.Tensor | None,
        gradient_ready: Callable[[int], None] | None = None,
        add: bool = False,
    ) -> None:
        """The backward pass that belongs to a `forward`, from the gradient of its output (None: it is the loss).

        Gradients end in `part.parameters[i].grad`, and in the input's `.grad` where it asks for one. add: to what the
        parameters have there already.
        """
        self.minibatch, self.work = minibatch, self.batches.work(minibatch) if self.blocks else 1.0
        with self.clock.about(minibatch):
            if self.arithmetic and output is not None:
                simulated = self.blocks is not None
                with self._around("backward", len(self.model_shard.blocks) - 1):
                    self.model_shard.backward(output, gradient, None if simulated else gradient_ready, add)
            self._backward_time(gradient_ready)

    def inject_delay(self, iteration: int) -> None:
        """Sleep as long as this rank is delayed in an iteration, once the device has nothing to do that hides it."""
        seconds = self.imbalance.delays(iteration)[self.rank] if self.imbalance else 0.0
        if seconds > 0:
            self._await_device()
            with self.clock.phase("imbalance"):
                self.fabric.sleep(seconds)

    def _pad(self, began: float) -> None:
        """Sleep so long that the passes end `min_compute_s` after `began`, if they take as long as the last ones did.

        Before the passes, so that gradients become ready when they would after so long a computation: what a strategy
        sends as soon as they are must not travel in the padding. Charged to the forward pass.
        """
        if (rest := (self.min_compute_s or 0.0) * self.work - self.passes_s - (self.fabric.now() - began)) > 0:
            with self.clock.phase("forward"):
                self.fabric.sleep(rest)

    def _await_device(self) -> None:
        if self.model_shard.device.type == "cuda":
            torch.cuda.synchronize(self.model_shard.device)

    def _microbatches(self, x: torch.Tensor, y: torch.Tensor) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        if self.accumulate == 1:
            return [(x, y)]
        return zip(x.chunk(self.accumulate), y.chunk(self.accumulate), strict=True)

    def _around(self, name: str, block: int) -> AbstractContextManager[None]:
        """Where a pass of a block happens: its phase, its time, its random numbers."""
        if self.blocks is None and (name != "forward" or block not in self.stochastic):
            return self.clock.phase(name)  # in real time, without random numbers, there is nothing else
        return self._around_all(name, block)

    @contextmanager
    def _around_all(self, name: str, block: int) -> Iterator[None]:
        # in virtual time only the first microbatch's forward pass takes time here: see _backward_time
        timed = self.blocks is None or (name == "forward" and self.microbatch == 0)
        seconds = self.work * self.blocks.forward[block] / self.accumulate if self.blocks else None
        with self.clock.phase(name) if timed else nullcontext():
            with self.fabric.compute(seconds) if timed else nullcontext():
                with self.seeded(block) if name == "forward" else nullcontext():
                    yield

    @contextmanager
    def seeded(self, block: int) -> Iterator[None]:
        """Around a pass of a block of the part: the random numbers of the minibatch that is worked on."""
        if block in self.stochastic and self.arithmetic:
            # the same dropout whatever ran before, here or on another virtual rank between two blocks: resume and
            # evaluation change nothing
            drawn = (self.seed * 1_000_003 + self.minibatch) * 1009 + self.numbers[block]
            torch.manual_seed(drawn + MICROBATCH_SEED * self.microbatch)
        yield

    def _backward_time(self, gradient_ready: Callable[[int], None] | None) -> None:
        """All virtual time of a minibatch behind the first microbatch's forward pass.

        The passes in between, in which nobody's hook is called, in one stretch each; then the last backward pass.
        """
        if self.blocks is None:  # time is real
            return
        if self.accumulate > 1:
            share = self.work * (self.accumulate - 1) / self.accumulate
            for name, each in (("backward", self.blocks.backward), ("forward", self.blocks.forward)):
                with self.clock.phase(name), self.fabric.compute(share * sum(each)):
                    pass
        for block in reversed(range(len(self.blocks.backward))):
            seconds = self.work * self.blocks.backward[block] / self.accumulate
            with self.clock.phase("backward"), self.fabric.compute(seconds):
                pass
            if gradient_ready:
                gradient_ready(block)

    def _pass_time(
        self,
        before_block: Callable[[int], None] | None,
        gradient_ready: Callable[[int], None] | None,
        through: Through | None,
    ) -> None:
        through(lambda: self._pass_forward(before_block)) if through else self._pass_forward(before_block)
        self._backward_time(gradient_ready)

    def _pass_forward(self, before_block: Callable[[int], None] | None) -> None:
        for block in range(len(self.model_shard.blocks)):
            if before_block:
                before_block(block)
            with self._around("forward", block):
                pass

    def update(self, total: torch.Tensor | None = None, lr_factor: float = 1.0, summands: int | None = None) -> None:
        """One optimizer step, charged to phase "update", with the mean of a sum (n,) over the workers.

        The mean where Pipe-SGD's Algorithm 1 prints a sum: docs/errata.md. None: with the part's own gradients, which
        may be a sum as well: of `summands`. `lr_factor`: of the learning rate, for this step alone. `summands`: how
        many gradients the sum is of, if not one of each worker.
        """
        with self.clock.phase("update"):
            with self.fabric.compute(self.fabric.costs.seconds("update", 4 * self.model_shard.size)):
                if not self.arithmetic:
                    return
                if total is not None:
                    total.div_(summands or self.workers)
                elif summands and summands > 1:
                    self.model_shard.divide(summands)
                self.model_shard.update(total, lr_factor)


def stochastic(shard: ModelShard) -> set[int]:
    """The blocks of a model shard that draw random numbers."""
    return {
        index
        for index, block in enumerate(shard.blocks)
        if any("Dropout" in type(module).__name__ for module in block.modules())
    }
