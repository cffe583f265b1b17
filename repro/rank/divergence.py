"""Divergence: a run whose loss or weights are not finite ends, instead of training on to numbers that mean nothing.

Steps pay nothing for it: their losses stay on the device until the next stop (`repro.rank.step_log`), where they are
read anyway, and there all is looked through that a checkpoint would hold: weights and buffers, the optimizer's state
(an infinite momentum makes the next weights infinite), the strategy's (a server's shard, residuals, gradients under
way).
So the step that is named is the first whose training loss is not finite, and the parameter the first that is not at the
stop after it. Strategies may find it sooner (`repro.fabric.sparse.gradients`). Timing-only runs have nothing to look
at.

A test loss that is not finite counts too, also with finite weights: such a model has no result either.
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
class Broken:
    """What a rank has at a stop that is not finite: the loss from step `step` on, the tensor `name`; None: all is."""

    rank: int
    step: int | None
    name: str | None


def find(worker: Worker, strategy: Strategy, iteration: int, losses: Sequence[float]) -> Broken | None:
    """What of a rank is not finite after an iteration, among the losses of its last steps and all that a checkpoint
    would hold."""
    if not worker.arithmetic:
        return None
    step, place = None, first_loss(losses)
    if place is not None:
        step = _iteration_of(worker, strategy, iteration, len(losses) - place)
    name = first_tensor(chain(worker.model_shard.tensors(), tensors(strategy.state_dict())))
    return Broken(worker.rank, step, name) if step or name else None


def _iteration_of(worker: Worker, strategy: Strategy, iteration: int, nth_last: int) -> int:
    """The iteration of a rank's n-th most recent step up to `iteration`."""
    step = strategy.steps(iteration * worker.workers) - nth_last + 1
    while iteration > 1 and strategy.steps((iteration - 1) * worker.workers) >= step:
        iteration -= 1
    return iteration


def first_loss(losses: Sequence[float]) -> int | None:
    """The place of the first that is not finite."""
    return next((place for place, loss in enumerate(losses) if not math.isfinite(loss)), None)


def first_tensor(named: Iterable[tuple[str, torch.Tensor]]) -> str | None:
    """The name of the first with an element that is not finite; the device is waited for once."""
    floats = [(name, tensor) for name, tensor in named if tensor.is_floating_point() and tensor.numel()]
    if not floats:
        return None
    device = floats[0][1].device
    # both are NaN where an element is; several times as fast as to ask each element, and without memory for the answers
    ends = torch.stack([torch.stack(torch.aminmax(tensor)).double().to(device) for _, tensor in floats])
    return next((name for (name, _), finite in zip(floats, ends.isfinite().all(1).tolist()) if not finite), None)


def tensors(state: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors in nested mappings and sequences, named by the way to them."""
    if isinstance(state, torch.Tensor):
        yield name, state
    elif isinstance(state, Mapping | list | tuple):
        for key, entry in state.items() if isinstance(state, Mapping) else enumerate(state):
            yield from tensors(entry, f"{name}.{key}" if name else str(key))


def diverged(broken: Iterable[Broken], stop: int) -> Diverged:
    """The end of a run, from what its ranks found at the stop after step `stop`: at least one of them something."""
    ranks = sorted(broken, key=lambda one: one.rank)
    weights = next((f"{one.name} on rank {one.rank}" for one in ranks if one.name), None)
    losses = [(one.step, one.rank) for one in ranks if one.step is not None]
    if not losses:
        return Diverged(f"diverged: {weights} is not finite after step {stop}")
    step, rank = min(losses)
    also = f", nor is {weights} after step {stop}" if weights else ""
    return Diverged(f"diverged: the loss of rank {rank} is not finite at step {step}{also}")
