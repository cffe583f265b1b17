"""The one-layer MLP of eager-SGD's hyperplane regression (Table 1): 8,193 parameters at 8,192 dimensions.

Weights start at 0: the paper names no initialisation, and a convex loss does not depend on it.
"""

from __future__ import annotations

from torch import nn

from repro.core.errors import InputError
from repro.models._shapes import named_blocks

TAKES = "vectors"


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Points (N, dimensions) -> values (N, 1), in one block."""
    if len(input_shape) != 1:
        raise InputError(f"model hyperplane takes vectors of (dimensions,), not inputs of {tuple(input_shape)}")
    linear = nn.Linear(input_shape[0], classes)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return named_blocks(fc=nn.Sequential(linear))
