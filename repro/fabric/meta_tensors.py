"""Tensor operations that skip the meta device: torch's own meta operations take longer than a simulated message."""

from __future__ import annotations

import torch


def empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """An uninitialised tensor of the same size; on the meta device the tensor itself."""
    return tensor if tensor.is_meta else torch.empty_like(tensor)


def clone_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_meta else tensor.clone()


def add_tensor(total: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """Adds `part` to `total` in place; returns `total`."""
    return total if total.is_meta else total.add_(part)


def divide_tensor(total: torch.Tensor, by: float) -> torch.Tensor:
    """Divides `total` in place; returns it."""
    return total if total.is_meta else total.div_(by)
