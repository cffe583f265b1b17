"""The loss that a task is trained by, and those that PyTorch does not have as a workload needs them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional


def mean_squared_error(outputs: torch.Tensor, values: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Loss of a regression: outputs (N, 1) of the model against values (N,); `reduction` mean or sum."""
    return functional.mse_loss(outputs.flatten(), values, reduction=reduction)


def of(task: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """(outputs of the model, labels) -> the mean loss over a minibatch, of text over its words.

    task: one of `repro.data.base.TASKS`.
    """
    return mean_squared_error if task == "regression" else functional.cross_entropy
