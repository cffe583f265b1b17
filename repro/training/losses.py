"""The loss function of each task."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional


def mean_squared_error(outputs: torch.Tensor, values: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """The loss of a regression, of outputs (N, 1) and values (N,); reduction: mean or sum."""
    return functional.mse_loss(outputs.flatten(), values, reduction=reduction)


def loss_of(task: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The function (outputs, labels) -> mean loss over samples, or over words of text; task: one of
    `repro.data.base.TASKS`."""
    return mean_squared_error if task == "regression" else functional.cross_entropy
