"""Rows of a table chosen by what its columns hold: `workers=4`, `step_s<0.1`, `strategy!=dsync`."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd

COMPARISONS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_CONDITION = re.compile(r"\s*([^=!<>]+?)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)


def chosen(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows for which every condition holds; one that has nothing in a column is in none about it.

    Raises InputError for what is no condition, a column that is not there, and a value that it cannot hold.
    """
    for condition in conditions:
        parts = _CONDITION.fullmatch(condition)
        if parts is None:
            raise InputError(f"where {condition}: must be COLUMN, one of {' '.join(COMPARISONS)}, and a value")
        column, comparison, given = parts[1], parts[2], parts[3].strip()
        if column not in table:
            raise unknown("column", column, table.columns, most=5, all_of="repro results --csv")
        value = _value(condition, table[column], comparison, given)
        table = table[COMPARISONS[comparison](table[column], value).fillna(False) & table[column].notna()]
    return table


def _value(condition: str, column: pd.Series, comparison: str, given: str) -> Any:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_bool_dtype(column):
        if given.lower() not in ("true", "false") or comparison not in ("=", "!="):
            raise InputError(f"where {condition}: must be =true or =false")
        return given.lower() == "true"
    if is_numeric_dtype(column):
        try:
            return float(given)
        except ValueError:
            raise InputError(f"where {condition}: '{given}' is no number") from None
    if comparison not in ("=", "!="):
        raise InputError(f"where {condition}: {column.name} holds text, which is = or != another")
    return given
