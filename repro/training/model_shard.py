"""The part of a model that one rank holds: consecutive blocks, their parameters as one vector, and their optimizer."""

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
    """Calls `run`, a whole forward pass, and returns its loss (None without arithmetic)."""

    def __call__(self, run: Callable[[], Loss], /) -> Loss: ...


@runtime_checkable
class Stateful(Protocol):
    """A block that carries state from one minibatch to the next."""

    def reset_state(self) -> None: ...


class ModelShard:
    """Consecutive blocks of a model; a data-parallel rank has all of them.

    weights   (n,) float32, the parameters that train, in registration order. The module's parameters are views of it,
              so writing to it changes the model. Frozen parameters (requires_grad False) are not in it: they are drawn
              from the seed on every rank, and neither communicated nor updated
    parameters  the parameters in `weights`; snapshots also contain the frozen ones and the buffers. Batch norm trains
              with each rank's own statistics, as is usual; an evaluation uses rank 0's running statistics
    stateful  whether blocks carry state from one minibatch to the next (a recurrent layer's hidden state) and have
              `reset_state()`. The state is each rank's own, in buffers outside of the model's state dict: snapshots do
              not contain it, `state_dict` does
    calls     the function that computes each block's forward pass (`repro.training.numerics`)
    updates   optimizer steps so far
    updates_per_iteration  how many of them are one iteration of the learning-rate schedule: the number of workers for a
              server that applies each worker's gradient separately, a fraction for replicated stages
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
        self.calls = numeric.forward_calls(numerics, self.blocks, device)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.size = sum(p.numel() for p in self.parameters)
        self.device = device
        self.weights = torch.empty(self.size, device=device)
        with torch.no_grad():
            for parameter, view in zip(self.parameters, self.views(self.weights)):
                view.copy_(parameter)
                parameter.data = view
        trained: Sequence[torch.Tensor] = self.parameters or [torch.empty(0)]  # an optimizer needs a parameter
        self.optimizer = optimizers.build_optimizer(optimizer, trained)
        self.schedule = Schedule(optimizer, iterations_per_epoch)
        self.clip_norm: float | None = optimizer.clip_norm
        self.stateful = carries_state(model)
        self.updates = 0
        self.updates_per_iteration: int | Fraction = 1

    def keep(self, blocks: Sequence[int]) -> ModelShard:
        """A shard of some of these blocks, with the same weights and names, and a new optimizer. It replaces this one,
        which must not be used any more."""
        named = list(self.model.named_children())
        optimizer, iterations_per_epoch = self.configured
        part = nn.Sequential(OrderedDict(named[block] for block in blocks))
        return ModelShard(part, optimizer, self.device, iterations_per_epoch, self.numerics)

    def point_at(self, weights: torch.Tensor) -> None:
        """Use a vector (n,) as weights, without copying: the parameters become views of it.

        Autograd does not notice it, so a backward pass is possible after a forward pass with other weights.
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
        """Write the gradients of the last backward pass into the vector `out` (n,), and return it."""
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
        """One forward and one backward pass, which sets `.grad`. Returns the loss, on the device.

        microbatch (i, n): this is part i of n equal parts of a minibatch, in order. Their gradients are averaged in
        `.grad`, complete after the last part. Only the first part calls `before_block`, and only the last one
        `gradient_ready`, `through` and a library's hooks on the parameters' gradients.

        Autograd records nothing below the first block that trains, so frozen blocks there have no backward pass.

        around("forward" | "backward", block): a context manager around the block's work, for phases and costs.
        before_block(i): called before block i's forward pass; the block's parameters must have arrived on its return.
        gradient_ready(i): called when block i's gradients are complete, last block first, during the backward pass.
        through(run): calls `run`, the whole forward pass, and returns its loss; for a library that must see each
        forward pass (DistributedDataParallel).
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
        """The output of the last block, or the loss if there are labels; other arguments as in `forward_backward`."""
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
        """One backward pass from the gradient of the shard's output (None: the output is the loss).

        gradient_ready: as in `forward_backward`. add: add to the parameters' gradients instead of replacing them.
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
        """Divide the parameters' gradients, a sum, to get the mean."""
        for parameter in self.parameters:
            not_none(parameter.grad).div_(summands)

    def _add(self, gradients: Sequence[torch.Tensor | None]) -> None:
        """Add to the parameters' gradients without calling their hooks."""
        for parameter, gradient in zip(self.parameters, gradients):
            if parameter.grad is None:
                # a backward pass also leaves it contiguous, even for a convolution in another layout
                parameter.grad = None if gradient is None else gradient.contiguous()
            elif gradient is not None:
                parameter.grad.add_(gradient)

    def _gradient_hooks(self, gradient_ready: Callable[[int], None]) -> list:
        """Hooks that call `gradient_ready` when a block's gradients are complete: each block once, last block first.

        A block that does not train is reported right after the next block; at the end of the model, right before the
        last block that trains.
        """
        training = [[p for p in block.parameters() if p.requires_grad] for block in self.blocks]
        hooks, above = [], len(self.blocks)  # blocks from `above` on belong to earlier hooks
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
        """One optimizer step with a gradient vector (n,), or with the parameters' `.grad` if None.

        lr_factor: multiplies the learning rate of this step. A gradient whose norm exceeds `clip_norm` is scaled to it,
        in place, before weight decay and momentum.
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
        """(name, tensor) of all weights, buffers and tensors of the optimizer's state; no copies."""
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
        in_snapshot = self.model.state_dict().keys()
        carried = {name: buffer for name, buffer in self.model.named_buffers() if name not in in_snapshot}
        return {
            "model": self.snapshot(),
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
            "carried": {name: buffer.detach().clone() for name, buffer in carried.items()},
        }

    def load_state_dict(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])  # copies into the views of `weights`
        for name, tensor in state["carried"].items():  # its shape depends on the minibatch
            module, _, buffer = name.rpartition(".")
            setattr(self.model.get_submodule(module), buffer, tensor.to(self.device, copy=True))
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]

    def reset_state(self) -> None:
        """Forget the state that blocks carry from earlier minibatches."""
        reset_state(self.model)


def carries_state(model: nn.Module) -> bool:
    """Whether a model has blocks that carry state from one minibatch to the next."""
    return any(isinstance(module, Stateful) for module in model.modules())


def reset_state(model: nn.Module) -> None:
    """Forget the state that a model carries from one minibatch to the next, if any."""
    for module in model.modules():
        if isinstance(module, Stateful):
            module.reset_state()
