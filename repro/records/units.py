"""Type checks of entries whose names end with a unit: in records of other people they may not be numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

UNITS = ("_s", "_s_per_byte", "bytes", "_Bps", "_gbit", "seconds")
# entries of a testbed that describe its numbers and change no run; `bounds`: in records of before 2026-11-26
METADATA = ("sources", "inputs", "bounds", "claims", "implied")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_units(value: Any) -> None:
    """ValueError for an entry whose name ends with a unit, and whose value is not made of numbers."""
    for name, entry in _entries(value):
        if name.endswith(UNITS) and not _numbers(entry):
            raise ValueError(f"{name} is not made of numbers: {str(entry)[:40]!r}")


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, entry in value.items():
            yield name, entry
            if isinstance(entry, dict | list) and name not in METADATA:
                yield from _entries(entry)
    elif isinstance(value, list):
        for entry in value:
            if isinstance(entry, dict | list):
                yield from _entries(entry)


def _numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_numbers, value.values()))
    return all(map(_numbers, value)) if isinstance(value, list) else value is None or is_number(value)
