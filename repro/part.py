"""The part of a model that one rank holds: ordered blocks, their parameters as one vector, and their optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from repro.schedule import Schedule


class Part:
    """A run of a model's blocks (all of them, for a data-parallel rank).

    weights   (n,) float32, the parameters that train, in registration order; the module's parameters are views of it,
              so that receiving into it or loading a version of it changes the model. Frozen parameters (requires_grad
              False) are not in it: neither communicated nor updated, the same on all ranks as they come from the seed
    parameters  those in `weights`; snapshots hold the frozen ones and the buffers too. Batch norm trains with each
              rank's own statistics, as is usual; where a snapshot is evaluated, rank 0's running ones count
    updates   optimizer steps so far
    updates_per_iteration  how many of them the learning-rate schedule counts as one; a server that applies every
              worker's gradient by itself sets it to the number of workers
    """

    def __init__(
        self, model: nn.Sequential, optimizer: Mapping[str, Any], device: torch.device, iterations_per_epoch: int = 1
    ):
        """`optimizer`: as in the configuration; `iterations_per_epoch`: for its milestones."""
        self.model = model.to(device)
        self.blocks = list(model.children())
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.size = sum(p.numel() for p in self.parameters)
        self.device = device
        self.weights = torch.empty(self.size, device=device)
        with torch.no_grad():
            for parameter, view in zip(self.parameters, self.views(self.weights)):
                view.copy_(parameter)
                parameter.data = view
        self.optimizer = torch.optim.SGD(
            self.parameters,
            lr=optimizer["lr"],
            momentum=optimizer["momentum"],
            weight_decay=optimizer["weight_decay"],
        )
        self.schedule = Schedule.of(optimizer, iterations_per_epoch)
        self.updates, self.updates_per_iteration = 0, 1

    def views(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """A vector (n,) as tensors of the parameters' shapes, sharing its memory."""
        pieces = vector.split([p.numel() for p in self.parameters])
        return [piece.view(p.shape) for piece, p in zip(pieces, self.parameters)]

    def empty(self) -> torch.Tensor:
        """An uninitialised vector (n,) for gradients."""
        return torch.empty(self.size, device=self.device)

    def gradient(self, out: torch.Tensor) -> torch.Tensor:
        """The gradients of the last backward pass as one vector, into `out` (n,)."""
        return torch.cat([p.grad.view(-1) for p in self.parameters], out=out)

    def forward_backward(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        around: Callable[[str, int], object],
        before_block: Callable[[int], None] | None = None,
        gradient_ready: Callable[[int], None] | None = None,
        through: Callable[[Callable[[], torch.Tensor]], torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """One forward and one backward pass; gradients end in `.grad`. Returns the loss, on the device.

        Below the first block that trains autograd records nothing, so a frozen prefix costs its forward pass alone.

        around("forward" | "backward", block) is a context manager in which that block's work happens (phases, costs).
        before_block(i): just before block i's forward pass, where its parameters must have arrived.
        gradient_ready(i): when block i's gradients are complete, last block first, while earlier ones still compute.
        through(run): calls `run`, the whole forward pass, and returns the loss that it returns: for a library that has
        to see each pass of the model that it wraps (DistributedDataParallel).
        """
        for parameter in self.parameters:
            parameter.grad = None
        last = len(self.blocks) - 1

        def forward() -> torch.Tensor:
            activation = x
            for index, block in enumerate(self.blocks):
                if before_block:
                    before_block(index)
                with around("forward", index):
                    activation = block(activation)
                    if index == last:
                        loss = loss_function(activation, y)
            return loss

        loss = through(forward) if through else forward()
        hooks = self._gradient_hooks(gradient_ready) if gradient_ready else []
        try:
            with around("backward", last):
                loss.backward()
        finally:
            for hook in hooks:
                hook.remove()
        return loss.detach()

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

        `lr_factor`: of the schedule's learning rate, for this step alone.
        """
        if gradient is not None:
            for parameter, view in zip(self.parameters, self.views(gradient)):
                parameter.grad = view
        rate = self.schedule.rate(1 + self.updates // self.updates_per_iteration)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * lr_factor
        self.optimizer.step()
        self.updates += 1

    def snapshot(self) -> dict[str, torch.Tensor]:
        """A copy of all weights and buffers by name."""
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def state_dict(self) -> dict:
        return {"model": self.snapshot(), "optimizer": self.optimizer.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])  # copies into the views of `weights`
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]
