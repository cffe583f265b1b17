"""The entries that overrides `key=value` set; `+` and `++` before a key only allow it to be new."""

from __future__ import annotations

from collections.abc import Iterable


def key_of(override: str) -> str:
    """The entry that an override sets, without the signs that add it."""
    return override.partition("=")[0].lstrip("+")


def without_entries(overrides: Iterable[str], set_by: Iterable[str]) -> list[str]:
    """The overrides of entries that none of `set_by` sets."""
    keys = set(map(key_of, set_by))
    return [override for override in overrides if key_of(override) not in keys]
