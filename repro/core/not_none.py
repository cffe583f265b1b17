"""Values that may be missing, where whoever asks has seen to it that they are there."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """The value, which is there."""
    assert value is not None
    return value
