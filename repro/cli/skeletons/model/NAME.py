"""CAMEL: describe the network, and cite its source."""

import math
from collections import OrderedDict

from torch import nn

TAKES = "images"  # or text, vectors, sequences ... (docs/model.md)


def build(input_shape: tuple[int, ...], classes: int, *, hidden: int = 100) -> nn.Sequential:
    """(N, *input_shape) -> logits (N, classes), in two blocks; `model.OPTION=value` sets the keyword-only arguments."""
    inputs = math.prod(input_shape)
    return nn.Sequential(
        OrderedDict(
            hidden=nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU()),
            out=nn.Sequential(nn.Linear(hidden, classes)),
        )
    )
