"""JSON that somebody else may have written: standard JSON, or one line that says what it is instead."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def parse(text: str | bytes) -> Any:
    """What a JSON text stands for; ValueError with the reason for what is none.

    Python's own reader takes NaN and infinities, forgets the first of two entries of a name, and ends in RecursionError
    where brackets are nested too deeply.
    """
    try:
        return _DECODER.decode(text.decode() if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def _entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} is beyond all numbers")
    return number


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_entries, parse_float=_number, parse_constant=_constant)
