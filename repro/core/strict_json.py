"""A strict JSON parser for files that others may have written."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str | bytes) -> Any:
    """The value of a standard JSON text; ValueError with the reason for any other.

    Python's own reader accepts NaN and infinities, drops duplicate names, and raises RecursionError for deep nesting.
    """
    decoded = text.decode() if isinstance(text, bytes) else text
    try:
        value = _DECODER.decode(decoded)
        if _SURROGATE.search(decoded):  # a lone surrogate cannot be encoded
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    return value


def _entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return entries


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} overflows a double")
    return number


def _whole(text: str) -> int:
    if not -(2**63) <= (number := int(text)) < 2**63:
        raise ValueError(f"{text[:40]} overflows a 64-bit integer")
    return number


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_entries, parse_float=_number, parse_int=_whole, parse_constant=_constant)
