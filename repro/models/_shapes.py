"""Checks of input shapes, sizes of feature maps, scaled widths, and initialisation, shared by the models."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated

from pydantic import Field
from torch import nn

from repro.core.errors import InputError

Dropout = Annotated[float, Field(ge=0, lt=1)]


def pooled_side(size: int, kernel: int, stride: int, padding: int = 0) -> int:
    """Pixels along one side after a convolution or pooling that rounds down; 0 or less if nothing is left."""
    return (size + 2 * padding - kernel) // stride + 1


def feature_map(model: str, input_shape: tuple[int, ...], after: Callable[[int], int]) -> tuple[int, int, int]:
    """(channels, height, width) of the last feature map; `after(side)` computes the size of a side.

    InputError if the input is no image (channels, height, width), or too small; the error names the minimum size.
    """
    if len(input_shape) != 3:
        raise InputError(f"model {model} takes images of (channels, height, width), not inputs of {input_shape}")
    channels, height, width = input_shape
    sides = after(height), after(width)
    if min(sides) < 1:
        least = next(side for side in range(1, 4096) if after(side) >= 1)
        raise InputError(f"model {model} takes images of at least {least}x{least} pixels, not {height}x{width}")
    return channels, *sides


def scaled_width(channels: int, width: float) -> int:
    """The channels or units of a network `width` times as wide, at least 8."""
    return channels if width == 1 else max(8, round(channels * width))


def named_blocks(**blocks: nn.Module) -> nn.Sequential:
    """An nn.Sequential of named blocks."""
    return nn.Sequential(OrderedDict(blocks))


def initialise_he(network: nn.Sequential, last: float | None = 0.01) -> nn.Sequential:
    """Draw convolutions and linear layers as He et al. do (ICCV 2015, fan in), the last layer from N(0, `last`^2)
    (None: as the others); biases are 0."""
    layers = [module for module in network.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    if last is not None:
        nn.init.normal_(layers[-1].weight, std=last)
    return network
