"""The update rules, as PyTorch has them, and the learning rate of each update, from its number alone, so that a resume
goes on where it stopped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from repro.core.not_none import not_none
from repro.experiment.optimizer import Optimizer


def build(optimizer: Optimizer, parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    """The rule that the configuration's `optimizer` names, for these parameters; its rate is set before every step.

    RMSProp (Tieleman, Hinton 2012) divides a gradient by sqrt(s) + eps, s a running mean of its squares that keeps
    `alpha` of itself at every update, and then applies momentum. TensorFlow's, of the Inception-v3 paper (alpha 0.9,
    eps 1.0), has eps under the root, divides by sqrt(s + eps), and starts s at 1 instead of 0.
    """
    lr, momentum, weight_decay = optimizer.lr, optimizer.momentum, optimizer.weight_decay
    if optimizer.name == "rmsprop":
        return torch.optim.RMSprop(parameters, lr, optimizer.alpha, optimizer.eps, weight_decay, momentum)
    return torch.optim.SGD(parameters, lr, momentum, weight_decay=weight_decay)


@dataclass(frozen=True)
class Schedule:
    """The learning rate of update t, t = 1 for the first.

    constant: lr · inverse_sqrt: lr / sqrt(t) · inverse: lr / t · step: lr x decay^m, m the milestones (in updates)
    that lie behind, so that a milestone's own update is the last at the old rate · exponential: the same with a
    milestone after each `every` updates · cosine: lr x (1 + cos(pi s)) / 2, s = (t - 1) / over, of Loshchilov, Hutter
    2017 (equation 5, without restarts and with 0 at the end) · polynomial: lr x (1 - s)^power, Caffe's `poly`. These
    two are 0 after `over` updates. Whichever it is, the updates of the first epochs take a part of it: `warmup`
    has a factor an epoch.
    """

    lr: float
    name: str = "constant"
    milestones: tuple[float, ...] = ()
    decay: float = 0.1
    warmup: tuple[float, ...] = ()
    updates_per_epoch: int = 1
    every: float | None = None
    over: float | None = None
    power: float = 1.0

    @classmethod
    def of(cls, optimizer: Optimizer, updates_per_epoch: int) -> Schedule:
        """From the configuration's `optimizer`, whose milestones, `every` and `over` are epochs."""
        milestones = tuple(epoch * updates_per_epoch for epoch in optimizer.milestones)
        every, over = (
            None if epochs is None else epochs * updates_per_epoch for epochs in (optimizer.every, optimizer.over)
        )
        return cls(
            optimizer.lr,
            optimizer.schedule,
            milestones,
            optimizer.decay,
            tuple(optimizer.warmup),
            updates_per_epoch,
            every,
            over,
            optimizer.power,
        )

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
            return self.lr * self.decay ** ((t - 1) // not_none(self.every))
        if self.name in ("cosine", "polynomial"):
            done = min(1.0, (t - 1) / not_none(self.over))
            return self.lr * (
                0.5 * (1 + math.cos(math.pi * done)) if self.name == "cosine" else (1 - done) ** self.power
            )
        return self.lr
