"""What is spared on tensors without contents (on the meta device), of which only the size counts: simulation alone.

torch would take longer over one such operation than a simulated message does.
"""

from __future__ import annotations

import torch


def empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same size to write to; without contents the very same does."""
    return tensor if tensor.is_meta else torch.empty_like(tensor)


def clone(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_meta else tensor.clone()


def add(total: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """`total`, to which `part` was added in place."""
    return total if total.is_meta else total.add_(part)


def div(total: torch.Tensor, by: float) -> torch.Tensor:
    """`total`, divided in place."""
    return total if total.is_meta else total.div_(by)
