"""Sizes of feature maps, scaled widths, and one line for images that a model cannot take."""

from __future__ import annotations

from collections.abc import Callable

from repro.core.errors import InputError


def pooled(size: int, kernel: int, stride: int, padding: int = 0) -> int:
    """Pixels along one side after a convolution or a pooling that rounds down; 0 or less where nothing is left."""
    return (size + 2 * padding - kernel) // stride + 1


def image(model: str, input_shape: tuple[int, ...], after: Callable[[int], int]) -> tuple[int, int, int]:
    """Channels and the two sides of the last feature map; `after(side)` gives one side's.

    InputError unless the input is an image (channels, height, width) of which something is left at the end; it names
    the least size.
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
    """Channels, or units, of a network `width` times as wide, never fewer than 8; InputError for a width of 0 or
    less."""
    if not isinstance(width, int | float) or isinstance(width, bool) or not 0 < width < float("inf"):
        raise InputError(f"model.width={width}: must be a number above 0")
    return channels if width == 1 else max(8, round(channels * width))
