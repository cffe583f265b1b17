"""PyTorch's optimizers by their configuration, learning-rate schedules, and the loss function of each task.

A rate depends on the number of the update alone, so schedules have no state to resume.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from repro.core.not_none import not_none
from repro.experiment.optimizer import Optimizer


def build_optimizer(optimizer: Optimizer, parameters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    """The configured optimizer for these parameters; the learning rate is set before every step.

    RMSProp (Tieleman, Hinton 2012) divides a gradient by sqrt(s) + eps, where s is the running mean of its squares with
    decay `alpha`, and then applies momentum. TensorFlow's, used in the Inception-v3 paper (alpha 0.9, eps 1.0), divides
    by sqrt(s + eps) and starts s at 1 instead of 0. AdamW (Loshchilov, Hutter, ICLR 2019) is Adam with a weight decay
    of lr x weight_decay x weight that is added to the step, not to the gradient.
    """
    lr, momentum, weight_decay = optimizer.lr, optimizer.momentum, optimizer.weight_decay
    if optimizer.name == "rmsprop":
        return torch.optim.RMSprop(parameters, lr, optimizer.alpha, optimizer.eps, weight_decay, momentum)
    if optimizer.name == "adamw":
        first, second = optimizer.betas
        return torch.optim.AdamW(parameters, lr, (first, second), optimizer.eps, weight_decay)
    return torch.optim.SGD(parameters, lr, momentum, weight_decay=weight_decay)


@dataclass(frozen=True)
class Schedule:
    """The learning rate of update t, t = 1 for the first.

    Milestones, `every` and `over` of the configuration are epochs, of `updates_per_epoch` updates each.

    constant      lr
    inverse_sqrt  lr / sqrt(t); inverse: lr / t
    step          lr x decay^m after m milestones; the update at a milestone is the last with the old rate
    exponential   the same with a milestone after every `every` epochs
    cosine        lr x (1 + cos(pi s)) / 2, s = (t - 1) / over (Loshchilov, Hutter 2017, equation 5, without restarts)
    polynomial    lr x (1 - s)^power, Caffe's `poly`; cosine and polynomial are 0 after `over` epochs

    `warmup` has a factor for each of the first epochs.
    """

    optimizer: Optimizer
    updates_per_epoch: int

    def rate(self, t: int) -> float:
        epoch, warmup = (t - 1) // self.updates_per_epoch, self.optimizer.warmup
        return self._scheduled(t) * warmup[epoch] if epoch < len(warmup) else self._scheduled(t)

    def _scheduled(self, t: int) -> float:
        options, lr, each = self.optimizer, self.optimizer.lr, self.updates_per_epoch
        match options.schedule:
            case "inverse_sqrt":
                return lr / t**0.5
            case "inverse":
                return lr / t
            case "step":
                return lr * options.decay ** sum(t > epoch * each for epoch in options.milestones)
            case "exponential":
                return lr * options.decay ** ((t - 1) // (not_none(options.every) * each))
            case "cosine" | "polynomial":
                done = min(1.0, (t - 1) / (not_none(options.over) * each))
                cosine = options.schedule == "cosine"
                return lr * (0.5 * (1 + math.cos(math.pi * done)) if cosine else (1 - done) ** options.power)
        return lr


def mean_squared_error(outputs: torch.Tensor, values: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """The loss of a regression, of outputs (N, 1) and values (N,); reduction: mean or sum."""
    return functional.mse_loss(outputs.flatten(), values, reduction=reduction)


def loss_of(task: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The function (outputs, labels) -> mean loss over samples, or over words of text; task: one of
    `repro.data.base.TASKS`."""
    return mean_squared_error if task == "regression" else functional.cross_entropy
