"""Learning-rate schedules: each update's rate from its number alone, so that a resume goes on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.errors import InputError, unknown

# 1 / sqrt(t) and 1 / t: of the proofs that Pipe-SGD 3.3 adapts (its reference [23], Langford et al., NIPS 2009)
SCHEDULES = ("constant", "inverse_sqrt", "inverse", "step")
NUMBERS = ("lr", "momentum", "weight_decay")
ENTRIES = (*NUMBERS, "schedule", "milestones", "decay")


@dataclass(frozen=True)
class Schedule:
    """The learning rate of update t, t = 1 for the first.

    constant: lr · inverse_sqrt: lr / sqrt(t) · inverse: lr / t · step: lr x decay^m, m the milestones (in updates)
    that lie behind, so that a milestone's own update is the last at the old rate.
    """

    lr: float
    name: str = "constant"
    milestones: tuple[float, ...] = ()
    decay: float = 0.1

    @classmethod
    def of(cls, optimizer: Mapping[str, Any], updates_per_epoch: int) -> Schedule:
        """From the configuration's `optimizer`, whose milestones are epochs."""
        milestones = tuple(epoch * updates_per_epoch for epoch in optimizer.get("milestones", ()))
        name, decay = optimizer.get("schedule", "constant"), optimizer.get("decay", 0.1)
        return cls(optimizer["lr"], name, milestones, decay)

    def rate(self, t: int) -> float:
        """The learning rate of update t."""
        if self.name == "inverse_sqrt":
            return self.lr / t**0.5
        if self.name == "inverse":
            return self.lr / t
        if self.name == "step":
            return self.lr * self.decay ** sum(t > milestone for milestone in self.milestones)
        return self.lr


def check(optimizer: Mapping[str, Any]) -> None:
    """InputError for an `optimizer` entry that is unknown or cannot be used."""
    for name, value in optimizer.items():
        if name not in ENTRIES:
            raise unknown("optimizer entry", name, ENTRIES)
        if name in NUMBERS and (not _number(value) or value < 0):
            raise InputError(f"optimizer.{name}={value}: must be a number, 0 or more")
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


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _milestones(value: Any) -> bool:
    """Whether a value is a list of numbers above 0 that rise."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(map(_number, value)):
        return False
    return all(low < high for low, high in zip((0, *value), value))
