"""Shared by the models: checks of options and input shapes, sizes of feature maps, scaled widths."""

from __future__ import annotations

from collections.abc import Callable

from repro.core.errors import InputError


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
    """The channels or units of a network `width` times as wide, at least 8; InputError for a width of 0 or less."""
    if not isinstance(width, int | float) or isinstance(width, bool) or not 0 < width < float("inf"):
        raise InputError(f"model.width={width}: must be a number above 0")
    return channels if width == 1 else max(8, round(channels * width))


def check_sizes(**sizes: object) -> None:
    """InputError unless all options are whole numbers of at least 1."""
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"model.{name}={value}: must be a whole number, 1 or more")


def check_dropout(dropout: object) -> None:
    """InputError unless it is a probability below 1."""
    if not isinstance(dropout, int | float) or isinstance(dropout, bool) or not 0 <= dropout < 1:
        raise InputError(f"model.dropout={dropout}: must be a number from 0 to below 1")
