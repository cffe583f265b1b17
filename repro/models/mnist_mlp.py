"""MNIST-MLP: "a classical 3-layer perceptron, both hidden layers 500-dimensional" (Pipe-SGD section 4).

The paper names no activation; ReLU here. 784-500-500-10 has 648,010 parameters.
"""

from __future__ import annotations

import math

from torch import nn

from repro.models._shapes import named_blocks

HIDDEN = 500


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, *input_shape) -> logits (N, classes), in three blocks."""
    pixels = math.prod(input_shape)
    return named_blocks(
        fc1=nn.Sequential(nn.Flatten(), nn.Linear(pixels, HIDDEN), nn.ReLU()),
        fc2=nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU()),
        fc3=nn.Sequential(nn.Linear(HIDDEN, classes)),
    )
