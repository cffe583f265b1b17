"""Learning-rate schedules: each update's rate from its number alone, so that a resume goes on where it stopped.

`check` is for all that the configuration's `optimizer` may hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.common.errors import InputError, unknown

# 1 / sqrt(t) and 1 / t: of the proofs that Pipe-SGD 3.3 adapts (its reference [23], Langford et al., NIPS 2009)
SCHEDULES = ("constant", "inverse_sqrt", "inverse", "step", "exponential")
OPTIMIZERS = ("sgd", "rmsprop")
NUMBERS = ("lr", "momentum", "weight_decay")
ENTRIES = (*NUMBERS, "schedule", "milestones", "decay", "every", "warmup", "clip_norm", "name", "alpha", "eps")


@dataclass(frozen=True)
class Schedule:
    """The learning rate of update t, t = 1 for the first.

    constant: lr · inverse_sqrt: lr / sqrt(t) · inverse: lr / t · step: lr x decay^m, m the milestones (in updates)
    that lie behind, so that a milestone's own update is the last at the old rate · exponential: the same with a
    milestone after each `every` updates. Whichever it is, the updates of the first epochs take a part of it: `warmup`
    has a factor an epoch.
    """

    lr: float
    name: str = "constant"
    milestones: tuple[float, ...] = ()
    decay: float = 0.1
    warmup: tuple[float, ...] = ()
    updates_per_epoch: int = 1
    every: float | None = None

    @classmethod
    def of(cls, optimizer: Mapping[str, Any], updates_per_epoch: int) -> Schedule:
        """From the configuration's `optimizer`, whose milestones and `every` are epochs."""
        milestones = tuple(epoch * updates_per_epoch for epoch in optimizer.get("milestones", ()))
        name, decay = optimizer.get("schedule", "constant"), optimizer.get("decay", 0.1)
        every = None if optimizer.get("every") is None else optimizer["every"] * updates_per_epoch
        warmup = tuple(optimizer.get("warmup", ()))
        return cls(optimizer["lr"], name, milestones, decay, warmup, updates_per_epoch, every)

    def rate(self, t: int) -> float:
        """The learning rate of update t."""
        epoch = (t - 1) // self.updates_per_epoch
        return self._scheduled(t) * self.warmup[epoch] if epoch < len(self.warmup) else self._scheduled(t)

    def _scheduled(self, t: int) -> float:
        if self.name == "inverse_sqrt":
            return self.lr / t**0.5
        if self.name == "inverse":
            return self.lr / t
        if self.name == "step":
            return self.lr * self.decay ** sum(t > milestone for milestone in self.milestones)
        if self.name == "exponential":
            return self.lr * self.decay ** ((t - 1) // self.every)
        return self.lr


def check(optimizer: Mapping[str, Any]) -> None:
    """InputError for an `optimizer` entry that is unknown or cannot be used."""
    for name, value in optimizer.items():
        if name not in ENTRIES:
            raise unknown("optimizer entry", name, ENTRIES)
        if name in NUMBERS and (not _number(value) or value < 0):
            raise InputError(f"optimizer.{name}={value}: must be a number, 0 or more")
    _check_rule(optimizer)
    schedule = optimizer.get("schedule", "constant")
    if schedule not in SCHEDULES:
        raise unknown("optimizer.schedule", str(schedule), SCHEDULES)
    milestones, decay = optimizer.get("milestones", ()), optimizer.get("decay", 0.1)
    if not _milestones(milestones):
        raise InputError(
            f"optimizer.milestones={milestones}: must be a list of epochs above 0, each above the one before, "
            "for instance [10,20]"
        )
    if schedule == "step" and not milestones:
        raise InputError("optimizer.milestones=[]: schedule=step needs at least one epoch, for instance [10,20]")
    if not _number(decay) or not 0 < decay <= 1:
        raise InputError(f"optimizer.decay={decay}: must be a number above 0 and at most 1")
    every = optimizer.get("every")
    if every is not None and (not _number(every) or not every > 0):
        raise InputError(f"optimizer.every={every}: must be a number of epochs above 0, or null")
    if schedule == "exponential" and every is None:
        raise InputError("optimizer.every=null: schedule=exponential needs a number of epochs, for instance 2")
    warmup, clip_norm = optimizer.get("warmup", ()), optimizer.get("clip_norm")
    if not _numbers(warmup) or not all(factor > 0 for factor in warmup):
        raise InputError(
            f"optimizer.warmup={warmup}: must be a list of factors of the learning rate above 0, one an epoch, "
            "for instance [0.1,0.5]"
        )
    if clip_norm is not None and (not _number(clip_norm) or not clip_norm > 0):
        raise InputError(f"optimizer.clip_norm={clip_norm}: must be a number above 0, or null for no clipping")


def _check_rule(optimizer: Mapping[str, Any]) -> None:
    """InputError for an unknown update rule, and for numbers of RMSProp that it cannot use."""
    name, alpha, eps = optimizer.get("name", "sgd"), optimizer.get("alpha", 0.99), optimizer.get("eps", 1e-8)
    if name not in OPTIMIZERS:
        raise unknown("optimizer.name", str(name), OPTIMIZERS)
    if not _number(alpha) or not 0 <= alpha < 1:
        raise InputError(f"optimizer.alpha={alpha}: must be a number from 0 to below 1")
    if not _number(eps) or not eps > 0:
        raise InputError(f"optimizer.eps={eps}: must be a number above 0")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def _milestones(value: Any) -> bool:
    """Whether a value is a list of numbers above 0 that rise."""
    return _numbers(value) and all(low < high for low, high in zip((0, *value), value))


def _numbers(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(map(_number, value))
