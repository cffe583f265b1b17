"""The part of a model that one rank holds: ordered blocks, their parameters as one vector, and their optimizer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from repro.core.not_none import not_none
from repro.experiment.optimizer import Optimizer
from repro.experiment.schema import Numerics
from repro.training import numerics as numeric
from repro.training import optimizers
from repro.training.optimizers import Schedule

FP32 = Numerics()
Loss = TypeVar("Loss")


class Through(Protocol):
    """Calls `run`, a whole forward pass, and returns the loss that it returns (without arithmetic None)."""

    def __call__(self, run: Callable[[], Loss], /) -> Loss: ...


@runtime_checkable
class Stateful(Protocol):
    """A block that carries something from one minibatch to the next."""

    def reset_state(self) -> None: ...


class ModelShard:
    """A run of a model's blocks (all of them, for a data-parallel rank).

    weights   (n,) float32, the parameters that train, in registration order; the module's parameters are views of it,
              so that receiving into it or loading a version of it changes the model. Frozen parameters (requires_grad
              False) are not in it: neither communicated nor updated, the same on all ranks as they come from the seed
    parameters  those in `weights`; snapshots hold the frozen ones and the buffers too. Batch norm trains with each
              rank's own statistics, as is usual; where a snapshot is evaluated, rank 0's running ones count
    stateful  whether blocks carry something from one minibatch to the next (a recurrent layer's hidden state): those
              have `reset_state()`. It is each rank's own, in buffers outside of the model's state dict: no part of a
              snapshot, but of `state_dict`
    calls     how each block is called in a forward pass (`repro.training.numerics`)
    updates   optimizer steps so far
    updates_per_iteration  how many of them the learning-rate schedule counts as one; a server that applies every
              worker's gradient by itself sets it to the number of workers. Stages that are replicated have a fraction
    """

    def __init__(
        self,
        model: nn.Sequential,
        optimizer: Optimizer,
        device: torch.device,
        iterations_per_epoch: int = 1,
        numerics: Numerics = FP32,
    ):
        """`optimizer`, `numerics`: as in the configuration; `iterations_per_epoch`: for the optimizer's milestones."""
        self.configured, self.numerics = (optimizer, iterations_per_epoch), numerics
        self.model = model.to(device)
        self.blocks = list(model.children())
        self.calls = numeric.calls(numerics, self.blocks, device)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.size = sum(p.numel() for p in self.parameters)
        self.device = device
        self.weights = torch.empty(self.size, device=device)
        with torch.no_grad():
            for parameter, view in zip(self.parameters, self.views(self.weights)):
                view.copy_(parameter)
                parameter.data = view
        trained: Sequence[torch.Tensor] = self.parameters or [torch.empty(0)]  # blocks without any train nothing
        self.optimizer = optimizers.build(optimizer, trained)
        self.schedule = Schedule(optimizer, iterations_per_epoch)
        self.clip_norm: float | None = optimizer.clip_norm
        self.stateful = carries_state(model)
        self.updates = 0
        self.updates_per_iteration: int | Fraction = 1

    def keep(self, blocks: Sequence[int]) -> ModelShard:
        """A part of these blocks with these weights, under their names in the whole model.

        It starts with an optimizer of its own; this part is not to be used any more.
        """
        named = list(self.model.named_children())
        optimizer, iterations_per_epoch = self.configured
        kept = nn.Sequential(OrderedDict(named[block] for block in blocks))
        return ModelShard(kept, optimizer, self.device, iterations_per_epoch, self.numerics)

    def point_at(self, weights: torch.Tensor) -> None:
        """Make a vector (n,) the part's weights: the parameters become views of it, nothing is copied.

        Autograd does not notice: a backward pass whose forward pass used other weights goes on.
        """
        self.weights = weights
        for parameter, view in zip(self.parameters, self.views(weights)):
            parameter.data = view

    def views(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """A vector (n,) as tensors of the parameters' shapes, sharing its memory."""
        pieces = vector.split([p.numel() for p in self.parameters])
        return [piece.view(p.shape) for piece, p in zip(pieces, self.parameters)]

    def empty(self) -> torch.Tensor:
        """An uninitialised vector (n,) for gradients."""
        return torch.empty(self.size, device=self.device)

    def gradient(self, out: torch.Tensor) -> torch.Tensor:
        """The gradients of the last backward pass as one vector, into `out` (n,)."""
        return torch.cat([not_none(p.grad).view(-1) for p in self.parameters], out=out)

    def forward_backward(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        around: Callable[[str, int], AbstractContextManager[object]],
        before_block: Callable[[int], None] | None = None,
        gradient_ready: Callable[[int], None] | None = None,
        through: Through | None = None,
        microbatch: tuple[int, int] = (0, 1),
    ) -> torch.Tensor:
        """One forward and one backward pass; gradients end in `.grad`. Returns the loss, on the device.

        microbatch (i, n): this is the i-th of n equal parts of a minibatch, in order. Their gradients are averaged in
        `.grad` and complete with the last, which alone calls `gradient_ready` and `through`, as the first alone calls
        `before_block`. Nothing that watches the parameters' gradients (a library's hooks) sees those before it.

        Below the first block that trains autograd records nothing, so a frozen prefix costs its forward pass alone.

        around("forward" | "backward", block) is a context manager in which that block's work happens (phases, costs).
        before_block(i): just before block i's forward pass, where its parameters must have arrived.
        gradient_ready(i): when block i's gradients are complete, last block first, while earlier ones still compute.
        through(run): calls `run`, the whole forward pass, and returns the loss that it returns: for a library that has
        to see each pass of the model that it wraps (DistributedDataParallel).
        """
        piece, pieces = microbatch
        if piece == 0:
            self.clear_gradients()
        final = piece == pieces - 1

        def forward() -> torch.Tensor:
            return self.forward(x, y, loss_function, around, before_block if piece == 0 else None)

        loss = through(forward) if through and final else forward()
        share = loss if pieces == 1 else loss / pieces
        with around("backward", len(self.blocks) - 1):
            if final:
                self.backward(share, None, gradient_ready, add=True)
            else:
                self._add(torch.autograd.grad(share, self.parameters, allow_unused=True))
        return loss.detach()

    def forward(
        self,
        x: torch.Tensor,
        y: torch.Tensor | None,
        loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        around: Callable[[str, int], AbstractContextManager[object]],
        before_block: Callable[[int], None] | None = None,
    ) -> torch.Tensor:
        """What comes out of the last block, or the loss where labels are given; the rest as in `forward_backward`."""
        for index, call in enumerate(self.calls):
            if before_block:
                before_block(index)
            with around("forward", index):
                x = call(x)
                if index == len(self.calls) - 1 and y is not None:
                    x = loss_function(x, y)
        return x

    def clear_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def backward(
        self,
        output: torch.Tensor,
        gradient: torch.Tensor | None,
        gradient_ready: Callable[[int], None] | None = None,
        add: bool = False,
    ) -> None:
        """One backward pass from the gradient of the part's output (None: the output is the loss).

        gradient_ready: as in `forward_backward`. add: to the gradients that the parameters have already.
        """
        if not add:
            self.clear_gradients()
        hooks = self._gradient_hooks(gradient_ready) if gradient_ready else []
        try:
            torch.autograd.backward(output, gradient)
        finally:
            for hook in hooks:
                hook.remove()

    def divide(self, summands: int) -> None:
        """The parameters' gradients, a sum, become a mean."""
        for parameter in self.parameters:
            not_none(parameter.grad).div_(summands)

    def _add(self, gradients: Sequence[torch.Tensor | None]) -> None:
        """Add to the parameters' gradients, unseen by their hooks."""
        for parameter, gradient in zip(self.parameters, gradients):
            if parameter.grad is None:
                # as a backward pass leaves it, also that of a convolution in another layout
                parameter.grad = None if gradient is None else gradient.contiguous()
            elif gradient is not None:
                parameter.grad.add_(gradient)

    def _gradient_hooks(self, gradient_ready: Callable[[int], None]) -> list:
        """Call back when the last parameter of a block has its gradient: every block once, last block first.

        A block in which nothing trains is reported right after the block behind it; at the end of the model, right
        before the last block that trains.
        """
        training = [[p for p in block.parameters() if p.requires_grad] for block in self.blocks]
        hooks, above = [], len(self.blocks)  # blocks from `above` on are reported already
        for index in reversed([index for index, parameters in enumerate(training) if parameters]):
            lowest = 1 + max((i for i in range(index) if training[i]), default=-1)
            missing, reported = {id(p) for p in training[index]}, range(above - 1, lowest - 1, -1)
            above = lowest

            def arrived(parameter: torch.Tensor, missing: set = missing, reported: range = reported) -> None:
                missing.discard(id(parameter))
                if not missing:
                    for block in reported:
                        gradient_ready(block)

            hooks += [p.register_post_accumulate_grad_hook(arrived) for p in training[index]]
        return hooks

    def update(self, gradient: torch.Tensor | None = None, lr_factor: float = 1.0) -> None:
        """One optimizer step with a gradient vector (n,), or with the parameters' own `.grad` if None.

        `lr_factor`: of the schedule's learning rate, for this step alone. A gradient whose norm is above `clip_norm` is
        scaled down to it, in place, before weight decay and momentum.
        """
        if gradient is not None:
            for parameter, view in zip(self.parameters, self.views(gradient)):
                parameter.grad = view
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.clip_norm)
        rate = self.schedule.rate(1 + self.updates // self.updates_per_iteration)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * lr_factor
        self.optimizer.step()
        self.updates += 1

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All that the next weights come from, by name, no copies: weights, buffers, the optimizer's state of each."""
        yield from self.model.named_parameters()
        yield from self.model.named_buffers()
        for name, parameter in self.model.named_parameters():
            for what, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    yield f"{what} of {name}", value

    def snapshot(self) -> dict[str, torch.Tensor]:
        """A copy of all weights and buffers by name."""
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def state_dict(self) -> dict:
        carried = {name: buffer.detach().clone() for name, buffer in self._carried()}
        held = {"model": self.snapshot(), "optimizer": self.optimizer.state_dict(), "updates": self.updates}
        return held | {"carried": carried}

    def load_state_dict(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])  # copies into the views of `weights`
        for name, tensor in state["carried"].items():  # of any shape: what is carried depends on the minibatch
            module, _, buffer = name.rpartition(".")
            setattr(self.model.get_submodule(module), buffer, tensor.to(self.device, copy=True))
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]

    def reset_state(self) -> None:
        """Forget what blocks carry from the minibatches before."""
        reset_state(self.model)

    def _carried(self) -> list[tuple[str, torch.Tensor]]:
        kept = self.model.state_dict().keys()
        return [(name, buffer) for name, buffer in self.model.named_buffers() if name not in kept]


def carries_state(model: nn.Module) -> bool:
    """Whether a model has blocks that carry something from one minibatch to the next."""
    return any(isinstance(module, Stateful) for module in model.modules())


def reset_state(model: nn.Module) -> None:
    """Forget what a model carries from one minibatch to the next; nothing where it carries nothing."""
    for module in model.modules():
        if isinstance(module, Stateful):
            module.reset_state()
