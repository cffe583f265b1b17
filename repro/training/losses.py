"""Losses that PyTorch does not have as a workload needs them."""

from __future__ import annotations

import torch
from torch.nn import functional


def mean_squared_error(outputs: torch.Tensor, values: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Of a regression: outputs (N, 1) of the model against values (N,); `reduction` mean or sum."""
    return functional.mse_loss(outputs.flatten(), values, reduction=reduction)
