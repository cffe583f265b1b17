"""Learning-rate schedules: each update's rate from its number alone, so that a resume goes on where it stopped."""

from __future__ import annotations

from dataclasses import dataclass

from repro.common.known import known
from repro.experiment.optimizer import Optimizer


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
    def of(cls, optimizer: Optimizer, updates_per_epoch: int) -> Schedule:
        """From the configuration's `optimizer`, whose milestones and `every` are epochs."""
        milestones = tuple(epoch * updates_per_epoch for epoch in optimizer.milestones)
        every = None if optimizer.every is None else optimizer.every * updates_per_epoch
        warmup = tuple(optimizer.warmup)
        return cls(optimizer.lr, optimizer.schedule, milestones, optimizer.decay, warmup, updates_per_epoch, every)

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
            return self.lr * self.decay ** ((t - 1) // known(self.every))
        return self.lr
