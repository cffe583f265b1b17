"""The worker, through which a strategy uses its rank's model, data, fabric and clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.nn import functional

from repro.core.errors import InputError
from repro.fabric.base import Fabric
from repro.training import compute
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.first_updates import FirstUpdates
from repro.training.model_shard import ModelShard, Through


class Delays(Protocol):
    """Injected load imbalance (`repro.algorithms.imbalance`)."""

    @property
    def longest(self) -> float:
        """An upper bound of the delays in seconds."""

    def delays(self, iteration: int) -> list[float]:
        """Seconds (workers,) that each worker sleeps before the iteration's forward pass."""


@dataclass
class Worker:
    """One rank of a run.

    workers   ranks that compute gradients: ranks 0 .. workers - 1 of the fabric; servers come after them
    batches   batches[minibatch_id] -> (x, y); ids count over the whole run, iteration t uses t * workers + rank
    model_shard  the blocks that this rank holds (all blocks for data-parallel ranks and servers)
    blocks    modelled seconds of each block's passes in virtual time; None in real time
    arithmetic  False: timing only, on meta tensors, nothing is computed
    accumulate  the number of equal parts (microbatches) of a minibatch with separate passes, whose gradients are
                averaged
    imbalance   delays injected before the workers' passes; None: none
    min_compute_s  real seconds to which a gradient computation of nominal length is extended by sleeping; ignored in
                virtual time, where the testbed's device determines the time of passes
    iterations  of the whole run, for strategies that depend on its end
    first_updates   whether they look like sums that were not divided
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
    first_updates: FirstUpdates = field(default_factory=FirstUpdates)

    def __post_init__(self) -> None:
        self.parameters = self.model_shard.size  # of the whole model
        self.compute = compute.compute_for(self, range(len(self.model_shard.blocks)))

    @property
    def rank(self) -> int:
        return self.fabric.rank

    @property
    def is_server(self) -> bool:
        return self.rank >= self.workers

    @property
    def flops_per_s(self) -> float | None:
        """Operations per second of the testbed's device in the passes of this model; None in real time."""
        return self.blocks.flops_per_s if self.blocks else None

    def price(self, kind: str, nbytes: float, flops: float = 0.0) -> float | None:
        """Seconds of a strategy's own work, for `fabric.compute`: by the testbed's cost per byte of this `kind`, or
        without such an entry by `flops` at the device's rate. None in real time.

        Kinds: "encode/NAME", "decode/NAME", "select/NAME" of the testbed's `encode_s_per_byte` ..., for which
        `repro price` measures entries.
        """
        costs, rate = self.fabric.costs, self.flops_per_s
        if costs.known and rate and kind not in costs.seconds_per_byte:
            return flops / rate
        return costs.seconds(kind, nbytes)

    def keep(self, blocks: Sequence[int]) -> None:
        """Keep only these blocks of the model. Call it before the first minibatch."""
        self.model_shard = self.model_shard.keep(blocks)
        if self.blocks:
            forward, backward = ([s[block] for block in blocks] for s in (self.blocks.forward, self.blocks.backward))
            self.blocks = BlockSeconds(forward, backward, self.blocks.flops_per_s)
        self.compute = compute.compute_for(self, blocks)

    def gradients(
        self,
        minibatch: int,
        before_block: Callable[[int], None] | None = None,
        gradient_ready: Callable[[int], None] | None = None,
        through: Through | None = None,
    ) -> torch.Tensor | None:
        """Load a minibatch and compute both passes, which set `model_shard.parameters[i].grad`.

        Returns the mean loss over the minibatch as a device tensor (None without arithmetic). For the three hooks see
        `ModelShard.forward_backward`. The iteration's injected delay comes first. State that blocks carry from the
        previous minibatch is reset if this one does not continue it.
        """
        self.inject_delay(minibatch // self.workers)
        self.first_updates.compare_weights(self.model_shard)
        return self.compute.gradients(minibatch, compute.Hooks(before_block, gradient_ready, through))

    def forward(
        self, minibatch: int, x: torch.Tensor | None, y: torch.Tensor | None = None, timed: bool = True
    ) -> torch.Tensor | None:
        """Only the shard's forward pass: the output of its last block, or the loss if there are labels; None without
        arithmetic. `backward` continues it at any later time.

        timed: False repeats a forward pass after a resume; it takes no time and belongs to no phase.
        """
        with self.clock.about(minibatch):
            return self.compute.forward(minibatch, x, y, timed)

    def backward(
        self,
        minibatch: int,
        output: torch.Tensor | None,
        gradient: torch.Tensor | None,
        gradient_ready: Callable[[int], None] | None = None,
        add: bool = False,
    ) -> None:
        """The backward pass of a `forward`, from the gradient of its output (None: the output is the loss).

        It sets `model_shard.parameters[i].grad`, and the input's `.grad` if that requires one. add: add to the
        parameters' gradients instead of replacing them.
        """
        with self.clock.about(minibatch):
            self.compute.backward(minibatch, output, gradient, gradient_ready, add)

    def inject_delay(self, iteration: int) -> None:
        """Sleep for this rank's delay in an iteration, after the device is idle, so that nothing hides the delay."""
        seconds = self._delay(iteration)
        if seconds > 0:
            compute.await_device(self.model_shard)
            with self.clock.phase("imbalance"):
                self.fabric.sleep(seconds)

    def _delay(self, iteration: int) -> float:
        """This rank's delay in seconds; InputError for delays that are invalid or exceed their bound, from which
        strategies derive how late a gradient can be."""
        if not self.imbalance:
            return 0.0
        delays, longest = self.imbalance.delays(iteration), self.imbalance.longest
        if len(delays) != self.workers or not all(0 <= delay <= longest for delay in delays):
            raise InputError(
                f"imbalance {type(self.imbalance).__name__}: delays({iteration}) is {delays}; must be seconds for each "
                f"of {self.workers} workers, from 0 to its longest, {longest:g}"
            )
        return delays[self.rank]

    def update(self, total: torch.Tensor | None = None, lr_factor: float = 1.0, summands: int | None = None) -> None:
        """One optimizer step in phase "update", with the mean of the workers' gradients, whose sum is `total` (n,).

        The mean, although Pipe-SGD's Algorithm 1 prints a sum: errata.md, PS-4. total: None uses the parameters'
        `.grad`. summands: the number of gradients in the sum, by default one of each worker, or one if `total` is None.
        lr_factor: multiplies the learning rate of this step.
        """
        with self.clock.phase("update"):
            with self.fabric.compute(self.fabric.costs.seconds("update", 4 * self.model_shard.size)):
                if not self.arithmetic:
                    return
                if total is not None:
                    total.div_(summands or self.workers)
                    self.first_updates.compare_gradient(total, self.model_shard)
                elif summands and summands > 1:
                    self.model_shard.divide(summands)
                self.model_shard.update(total, lr_factor)
                self.first_updates.updated(self.model_shard)
