"""The forward and backward passes of a minibatch, and the time that they take on the rank's clock.

`Compute`     passes are computed in real time
`Padded`      the same, extended to a minimum time by sleeping
`Modelled`    passes are computed, and take the modelled time of each block
`TimingOnly`  nothing is computed; modelled time passes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch

from repro.core.not_none import not_none
from repro.fabric.base import Fabric
from repro.models._blocks import ONE_BLOCK
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard, Through
from repro.training.side_by_side import SideBySide

MICROBATCH_SEED = 2**44  # beyond all differences between the seeds of blocks and minibatches
Ready = Callable[[int], None]
Around = Callable[[str, int], AbstractContextManager[object]]


class Hooks(NamedTuple):
    """Callbacks during the passes, see `ModelShard.forward_backward`."""

    before_block: Ready | None = None
    gradient_ready: Ready | None = None
    through: Through | None = None


class Job(Protocol):
    """The members of `repro.training.worker.Worker` that a computation uses."""

    fabric: Fabric
    clock: Clock
    model_shard: ModelShard
    batches: Any
    seed: int
    blocks: BlockSeconds | None
    arithmetic: bool
    accumulate: int
    min_compute_s: float | None

    @property
    def loss_function(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]: ...


class Compute:
    """One per worker, which calls `gradients`, `forward` and `backward`.

    numbers: the numbers of the shard's blocks in the whole model; minibatch, microbatch: the current ones.
    """

    def __init__(self, worker: Job, numbers: Sequence[int]):
        self.worker, self.numbers = worker, numbers
        self.stochastic = random_blocks(worker.model_shard)
        self.minibatch, self.microbatch = -1, 0

    def gradients(self, minibatch: int, hooks: Hooks) -> torch.Tensor | None:
        x, y = self._load(minibatch)
        self.minibatch = minibatch
        return self._passes(x, y, hooks, self._around)

    def _load(self, minibatch: int) -> tuple[torch.Tensor, torch.Tensor]:
        worker = self.worker
        with worker.clock.phase("data"):
            x, y = worker.batches[minibatch]
            if worker.model_shard.stateful and worker.batches.begins(minibatch):
                worker.model_shard.reset_state()
        return x, y

    def _passes(self, x: torch.Tensor, y: torch.Tensor, hooks: Hooks, around: Around) -> torch.Tensor:
        worker, pieces, losses = self.worker, self.worker.accumulate, []
        parts = [(x, y)] if pieces == 1 else zip(x.chunk(pieces), y.chunk(pieces), strict=True)
        for piece, (inputs, labels) in enumerate(parts):
            self.microbatch, passes = piece, worker.model_shard.forward_backward
            losses.append(passes(inputs, labels, worker.loss_function, around, *hooks, microbatch=(piece, pieces)))
        return losses[0] if pieces == 1 else torch.stack(losses).mean()

    def forward(
        self, minibatch: int, x: torch.Tensor | None, y: torch.Tensor | None, timed: bool
    ) -> torch.Tensor | None:
        self.minibatch, self.microbatch = minibatch, 0
        around = self._around if timed else self._untimed
        return self.worker.model_shard.forward(not_none(x), y, self.worker.loss_function, around)

    def backward(
        self,
        minibatch: int,
        output: torch.Tensor | None,
        gradient: torch.Tensor | None,
        gradient_ready: Ready | None,
        add: bool,
    ) -> None:
        self.minibatch, shard = minibatch, self.worker.model_shard
        with self._around("backward", len(shard.blocks) - 1):
            shard.backward(not_none(output), gradient, gradient_ready, add)

    def _around(self, name: str, block: int) -> AbstractContextManager[None]:
        """The context of a block's pass: its phase, and its random numbers."""
        if name == "forward" and block in self.stochastic:
            return self._seeded_forward(block)
        return self.worker.clock.phase(name)

    def _untimed(self, name: str, block: int) -> AbstractContextManager[None]:
        """The context of a block's pass without its phase."""
        return self.seeded(block) if name == "forward" else nullcontext()

    @contextmanager
    def _seeded_forward(self, block: int) -> Iterator[None]:
        with self.worker.clock.phase("forward"), self.seeded(block):
            yield

    @contextmanager
    def seeded(self, block: int) -> Iterator[None]:
        """The context of a block's forward pass that seeds its random numbers by minibatch and block."""
        if block in self.stochastic:
            # dropout is independent of all that ran before: resumes, evaluations, other virtual ranks
            seed = (self.worker.seed * 1_000_003 + self.minibatch) * 1009 + self.numbers[block]
            torch.manual_seed(seed + MICROBATCH_SEED * self.microbatch)
        yield


class Padded(Compute):
    """Passes end `min_compute_s` after they were requested, if they take as long as the previous ones.

    The sleep precedes the passes, so that gradients become ready as late as after so long a computation, and nothing is
    sent during the padding. It counts as forward pass.
    """

    passes_s = 0.0  # real seconds of the last minibatch's passes

    def gradients(self, minibatch: int, hooks: Hooks) -> torch.Tensor | None:
        fabric, nominal_s = self.worker.fabric, not_none(self.worker.min_compute_s)
        target_s = nominal_s * self.worker.batches.work(minibatch)
        began = fabric.now()
        x, y = self._load(minibatch)
        if (rest := target_s - self.passes_s - (fabric.now() - began)) > 0:
            with self.worker.clock.phase("forward"):
                fabric.sleep(rest)
        began, self.minibatch = fabric.now(), minibatch
        loss = self._passes(x, y, hooks, self._around)
        await_device(self.worker.model_shard)
        self.passes_s = fabric.now() - began
        return loss


class Modelled(Compute):
    """The arithmetic takes no time; the modelled time of the passes elapses block by block.

    That of the forward pass elapses within it if a hook waits for messages there, else after both passes have started.
    """

    _known = -1, 1.0  # a minibatch, and its computation relative to one of nominal length

    def __init__(self, worker: Job, numbers: Sequence[int]):
        super().__init__(worker, numbers)
        self.side_by_side = SideBySide(worker.model_shard, lambda x, y: self._passes(x, y, Hooks(), self._untimed))

    def gradients(self, minibatch: int, hooks: Hooks) -> torch.Tensor | None:
        if hooks.before_block or hooks.through:
            loss = super().gradients(minibatch, hooks._replace(gradient_ready=None))
            self._rest(minibatch, hooks.gradient_ready)
            return loss
        x, y = self._load(minibatch)
        self.minibatch = minibatch
        wait = cache(self.side_by_side.start(x, y))
        self._all_forward(minibatch)

        def ready(block: int) -> None:
            wait()
            not_none(hooks.gradient_ready)(block)

        self._rest(minibatch, ready if hooks.gradient_ready else None)
        return wait()

    def backward(
        self,
        minibatch: int,
        output: torch.Tensor | None,
        gradient: torch.Tensor | None,
        gradient_ready: Ready | None,
        add: bool,
    ) -> None:
        if output is not None:
            super().backward(minibatch, output, gradient, None, add)
        self._rest(minibatch, gradient_ready)

    @contextmanager
    def _around(self, name: str, block: int) -> Iterator[None]:
        if name == "backward":
            yield
        elif self.microbatch:
            with self.seeded(block):
                yield
        else:
            worker, seconds = self.worker, self._forward_s(self.minibatch, block)
            with worker.clock.phase("forward"), worker.fabric.compute(seconds), self.seeded(block):
                yield

    def _all_forward(self, minibatch: int, before_block: Ready | None = None) -> None:
        """Let the time of the first microbatch's forward pass elapse."""
        for block in range(len(not_none(self.worker.blocks).forward)):
            if before_block:
                before_block(block)
            self._pass("forward", self._forward_s(minibatch, block))

    def _work(self, minibatch: int) -> float:
        if self._known[0] != minibatch:
            self._known = minibatch, self.worker.batches.work(minibatch)
        return self._known[1]

    def _forward_s(self, minibatch: int, block: int) -> float:
        """Seconds of a block's forward pass for one microbatch."""
        return self._work(minibatch) * not_none(self.worker.blocks).forward[block] / self.worker.accumulate

    def _pass(self, name: str, seconds: float) -> None:
        with self.worker.clock.phase(name), self.worker.fabric.compute(seconds):
            pass

    def _rest(self, minibatch: int, gradient_ready: Ready | None) -> None:
        """Let the time of a minibatch elapse that follows the first microbatch's forward pass.

        Only the last microbatch's backward pass goes block by block and calls the hook.
        """
        blocks, pieces, work = not_none(self.worker.blocks), self.worker.accumulate, self._work(minibatch)
        if pieces > 1:
            share = work * (pieces - 1) / pieces
            self._pass("backward", share * sum(blocks.backward))
            self._pass("forward", share * sum(blocks.forward))
        for block in reversed(range(len(blocks.backward))):
            self._pass("backward", work * blocks.backward[block] / pieces)
            if gradient_ready:
                gradient_ready(block)


class TimingOnly(Modelled):
    def gradients(self, minibatch: int, hooks: Hooks) -> torch.Tensor | None:
        def forward() -> None:
            self._all_forward(minibatch, hooks.before_block)

        hooks.through(forward) if hooks.through else forward()
        self._rest(minibatch, hooks.gradient_ready)
        return None

    def forward(self, minibatch: int, *_: object) -> None:
        self._all_forward(minibatch)


def compute_for(worker: Job, numbers: Sequence[int]) -> Compute:
    """The kind of computation that a worker's configuration requires."""
    if not worker.arithmetic:
        return TimingOnly(worker, numbers)
    if worker.blocks:
        return Modelled(worker, numbers)
    return (Compute if worker.min_compute_s is None else Padded)(worker, numbers)


def await_device(shard: ModelShard) -> None:
    if shard.device.type == "cuda":
        torch.cuda.synchronize(shard.device)


def random_blocks(shard: ModelShard) -> set[int]:
    """The blocks of a model shard that may draw random numbers: those with dropout, and user models of one block."""
    return {
        index
        for index, block in enumerate(shard.blocks)
        if hasattr(block, ONE_BLOCK) or any("Dropout" in type(module).__name__ for module in block.modules())
    }
