"""Select rows of a table by columns, and compute columns by arithmetic: `phases.communicate + phases.wait`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

Filter = dict[str, str | int | float | bool | list[str | int | float] | None]  # column -> its value, or allowed values
NAME = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*")
ARITHMETIC = re.compile(r"[\w\s.+\-*/()]+")  # no `@`, with which pandas reads Python's variables
CALL = re.compile(r"[\w.)]\s*\(")


def chosen(table: pd.DataFrame, where: Filter) -> pd.DataFrame:
    """The rows that match a filter in every column; InputError for a column that the table lacks."""
    return table.iloc[match_rows({name: list_column(table, name) for name in where}, where, range(len(table)))]


def match_rows(columns: Mapping[str, Sequence[Any]], where: Filter, rows: Iterable[int]) -> list[int]:
    """Those of some rows that match a filter in every column."""
    rows = list(rows)
    for name, wanted in where.items():
        values, allowed = columns[name], wanted if isinstance(wanted, list) else [wanted]
        rows = [row for row in rows if values[row] in allowed]
    return rows


def list_column(table: pd.DataFrame, name: str) -> list[Any]:
    """A column with None for missing values; InputError if the table lacks it."""
    if name not in table:
        raise unknown_name("column", name, table.columns)
    values, missing = table[name].tolist(), table[name].isna().tolist()
    return [None if lacks else value for value, lacks in zip(values, missing, strict=True)]


def names(column: str, table: pd.DataFrame) -> list[str]:
    """The columns that a column or arithmetic expression reads; InputError for any other expression."""
    if column in table:
        return [column]
    if not ARITHMETIC.fullmatch(column) or CALL.search(column):
        raise InputError(f"column '{column}': neither a column's name nor arithmetic on columns")
    return list(dict.fromkeys(NAME.findall(column)))


def computed(table: pd.DataFrame, column: str) -> pd.Series:
    """A column or arithmetic expression as numbers, NaN where a value is missing; InputError for an unknown column."""
    import pandas as pd

    needed = names(column, table)
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
