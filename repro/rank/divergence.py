"""Ends a run as diverged if a loss or a weight is not finite.

Steps cost nothing more: losses stay on the device until the next stop (`repro.rank.step_log`). There all values that a
checkpoint would contain are checked: weights, buffers, the optimizer's state (an infinite momentum makes the next
weights infinite) and the strategy's (a server's shard, residuals, gradients in transit). The error names the first step
whose training loss is not finite, and the first tensor that is not finite at the stop after it. Strategies may notice
it sooner (`repro.fabric.sparse.gradients`). Timing-only runs are not checked. The evaluator also checks the test loss,
which may be infinite although the weights are finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from repro.core.errors import Diverged
from repro.strategies.base import Strategy
from repro.training.worker import Worker


@dataclass(frozen=True)
class NonFinite:
    """The first loss (by its step) and the first tensor (by its name) of a rank that are not finite; None: all are."""

    rank: int
    step: int | None
    name: str | None


def find_nonfinite(worker: Worker, strategy: Strategy, iteration: int, losses: Sequence[float]) -> NonFinite | None:
    """Values of a rank that are not finite after an iteration: among the losses of its last steps, and the tensors that
    a checkpoint would contain."""
    if not worker.arithmetic:
        return None
    step, place = None, first_loss(losses)
    if place is not None:
        step = _iteration_of(worker, strategy, iteration, len(losses) - place)
    name = first_tensor(chain(worker.model_shard.tensors(), named_tensors(strategy.state_dict())))
    return NonFinite(worker.rank, step, name) if step or name else None


def _iteration_of(worker: Worker, strategy: Strategy, iteration: int, nth_last: int) -> int:
    """The iteration of a rank's n-th most recent step up to `iteration`."""
    step = strategy.steps(iteration * worker.workers) - nth_last + 1
    while iteration > 1 and strategy.steps((iteration - 1) * worker.workers) >= step:
        iteration -= 1
    return iteration


def first_loss(losses: Sequence[float]) -> int | None:
    """The index of the first loss that is not finite."""
    return next((place for place, loss in enumerate(losses) if not math.isfinite(loss)), None)


def first_tensor(named: Iterable[tuple[str, torch.Tensor]]) -> str | None:
    """The name of the first tensor with an element that is not finite. Synchronises with the device once."""
    floats = [(name, tensor) for name, tensor in named if tensor.is_floating_point() and tensor.numel()]
    if not floats:
        return None
    device = floats[0][1].device
    # NaN if an element is; several times faster than `isfinite` on all elements, and without its temporary tensor
    ends = torch.stack([torch.stack(torch.aminmax(tensor)).double().to(device) for _, tensor in floats])
    return next((name for (name, _), finite in zip(floats, ends.isfinite().all(1).tolist()) if not finite), None)


def named_tensors(state: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors in nested mappings and sequences; a name joins the keys that lead to the tensor."""
    if isinstance(state, torch.Tensor):
        yield name, state
    elif isinstance(state, Mapping | list | tuple):
        for key, entry in state.items() if isinstance(state, Mapping) else enumerate(state):
            yield from named_tensors(entry, f"{name}.{key}" if name else str(key))


def divergence_error(nonfinite: Iterable[NonFinite], stop: int) -> Diverged:
    """The error of all ranks, from the values that are not finite at the stop after step `stop`."""
    ranks = sorted(nonfinite, key=lambda value: value.rank)
    weights = next((f"{weight.name} on rank {weight.rank}" for weight in ranks if weight.name), None)
    losses = [(loss.step, loss.rank) for loss in ranks if loss.step is not None]
    if not losses:
        return Diverged(f"diverged: {weights} is not finite after step {stop}")
    step, rank = min(losses)
    also = f", nor is {weights} after step {stop}" if weights else ""
    return Diverged(f"diverged: the loss of rank {rank} is not finite at step {step}{also}")
