"""Softmax regression: one linear layer on the flattened input, convex; with weight decay strongly convex.

Weights start at 0: convergence bounds for convex objectives do not depend on the start.
"""

from __future__ import annotations

import math

from torch import nn

from repro.models._shapes import named_blocks


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, *input_shape) -> logits (N, classes), in one block."""
    linear = nn.Linear(math.prod(input_shape), classes)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return named_blocks(fc=nn.Sequential(nn.Flatten(), linear))
