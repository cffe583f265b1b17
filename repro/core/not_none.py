"""Narrowing of optional values for the type checker."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """The value; AssertionError for None."""
    assert value is not None
    return value
