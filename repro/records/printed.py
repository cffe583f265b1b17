"""Tables as text and CSV. Records may come from other people, so control characters and formulas are escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from repro.core.terminal import one_line

if TYPE_CHECKING:
    import pandas as pd

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # control characters, without tab and line break
FORMULA = re.compile(r"[=+\-@\t\r]")  # the first character of a cell that a spreadsheet evaluates


def text(table: pd.DataFrame, index: bool = True) -> str:
    """The table for a terminal, without control characters; floats have four digits, infinity is `not reached`."""
    plain = _map_text(table, one_line)
    return plain.to_string(index=index, na_rep="-", float_format=_four_digits)


def _four_digits(value: float) -> str:
    return "not reached" if value == math.inf else f"{value:.4g}"


def csv(table: pd.DataFrame) -> str:
    """The table as CSV, without control characters; a text that would be a formula gets a leading apostrophe."""
    return str(_map_text(table, _no_formula).to_csv(index=False))


def _map_text(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, str) else value

    copy = table.copy()
    for i, dtype in enumerate(table.dtypes):
        if dtype.name in ("object", "str", "string"):
            copy.isetitem(i, list(map(changed, table.iloc[:, i])))
    return copy.rename(columns=changed, index=changed)


def _no_formula(text: str) -> str:
    plain = CONTROL.sub(lambda match: repr(match[0])[1:-1], text)
    return f"'{plain}" if FORMULA.match(plain) else plain
