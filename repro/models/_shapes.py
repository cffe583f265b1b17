"""Shared by the models: checks of input shapes, sizes of feature maps, scaled widths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from repro.core.errors import InputError

Dropout = Annotated[float, Field(ge=0, lt=1)]


def pooled(size: int, kernel: int, stride: int, padding: int = 0) -> int:
    """Pixels along one side after a convolution or pooling that rounds down; 0 or less if nothing is left."""
    return (size + 2 * padding - kernel) // stride + 1


def image(model: str, input_shape: tuple[int, ...], after: Callable[[int], int]) -> tuple[int, int, int]:
    """(channels, height, width) of the last feature map; `after(side)` computes the size of a side.

    InputError if the input is no image (channels, height, width), or too small; it names the least size.
    """
    if len(input_shape) != 3:
        raise InputError(f"model {model} takes images of (channels, height, width), not inputs of {input_shape}")
    channels, height, width = input_shape
    sides = after(height), after(width)
    if min(sides) < 1:
        least = next(side for side in range(1, 4096) if after(side) >= 1)
        raise InputError(f"model {model} takes images of at least {least}x{least} pixels, not {height}x{width}")
    return channels, *sides


def scaled(channels: int, width: float) -> int:
    """The channels or units of a network `width` times as wide, at least 8."""
    return channels if width == 1 else max(8, round(channels * width))
