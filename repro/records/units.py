"""What the names of entries say: those that end with a unit are made of numbers (in records of other people they may
not be), and those in seconds are times."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

SECONDS, A_SECOND = ("_s", "seconds"), "_per_s"
UNITS = (*SECONDS, "_s_per_byte", "bytes", "_Bps", "_gbit")
PHASES = ("phases", "server_phases")  # of an iteration, each a time
UNSCALED = (str, bool, type(None))
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


def scale_times(entries: Any, factor: float) -> Any:
    """A result, or a part of it, with its times multiplied by a factor, and its rates divided by it."""
    return entries if factor == 1.0 else _scaled(entries, factor, 0)


def _scaled(value: Any, factor: float, power: int) -> Any:
    """power: of seconds in the value's unit: 1 of a time, -1 of a rate."""
    if isinstance(value, dict):
        return {
            name: part if type(part) in UNSCALED else _scaled(part, factor, _power_of(name) or power)
            for name, part in value.items()
        }
    if type(value) is float:  # most other values
        return value * factor if power > 0 else value / factor if power else value
    if isinstance(value, list):
        return [_scaled(part, factor, power) for part in value]
    if isinstance(value, BaseModel):
        return value.model_copy(update=_scaled(dict(value), factor, power))
    return _scaled(float(value), factor, power) if power and is_number(value) else value


@cache
def _power_of(name: str) -> int:
    """The power of seconds in the unit of an entry of this name; 0 if the name says none."""
    if name.endswith(A_SECOND):
        return -1
    return int(name in PHASES or name.endswith(SECONDS))
