"""Columns that are computed by arithmetic on others: `phases.communicate + phases.wait`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, unknown_name
from repro.records.units import SECONDS

if TYPE_CHECKING:
    import pandas as pd

Filter = dict[str, str | int | float | bool | list[str | int | float] | None]  # column -> its value, or allowed values
NAME = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*")
ARITHMETIC = re.compile(r"[\w\s.+\-*/()]+")  # no `@`, with which pandas reads Python's variables
MEDIANS = tuple(f"{unit}.median" for unit in SECONDS)
CALL = re.compile(r"[\w.)]\s*\(")


def end_of(column: str, end: str) -> str:
    """The column with an end, "low" or "high", of a column's interval; without an end the column itself.

    Of the median of a time it is the least or greatest repetition, of others `<column>_low` or `<column>_high`.
    """
    if end and column.endswith(MEDIANS):
        return column.removesuffix(".median") + {"low": ".min", "high": ".max"}[end]
    return f"{column}_{end}" if end else column


def find_columns(column: str, has: Callable[[str], bool]) -> list[str]:
    """The columns that a column or arithmetic expression reads; InputError for any other expression. has: whether the
    table has a column."""
    if has(column):
        return [column]
    if not ARITHMETIC.fullmatch(column) or CALL.search(column):
        raise InputError(f"column '{column}': neither a column's name nor arithmetic on columns")
    return list(dict.fromkeys(NAME.findall(column)))


def computed(table: pd.DataFrame, column: str) -> pd.Series:
    """A column or arithmetic expression as numbers, NaN where a value is missing; InputError for an unknown column."""
    import pandas as pd

    needed = find_columns(column, table.__contains__)
    if missing := [name for name in needed if name not in table]:
        raise unknown_name("column", missing[0], table.columns)
    try:
        numbers = table[needed].astype(float)
        if column in numbers:
            return numbers[column]
        result: Any = numbers.eval(NAME.sub(lambda name: f"`{name[0]}`", column), engine="python")
        return pd.Series(result, table.index, dtype=float)
    except (SyntaxError, ValueError, AttributeError):
        raise InputError(f"column '{column}': neither numbers nor arithmetic on columns of numbers") from None
