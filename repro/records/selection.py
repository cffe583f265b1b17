"""Select rows of a table by conditions on its columns: `workers=4`, `step_s<0.1`, `strategy!=dsync`."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

COMPARISONS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_CONDITION = re.compile(r"\s*([^=!<>]+?)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)


def chosen(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows for which every condition holds; a missing value meets no condition.

    Raises InputError for an invalid condition, an unknown column and a value of another type than the column's.
    """
    for condition in conditions:
        parts = _CONDITION.fullmatch(condition)
        if parts is None:
            raise InputError(f"where {condition}: must be COLUMN, one of {' '.join(COMPARISONS)}, and a value")
        column, comparison, text = parts[1], parts[2], parts[3].strip()
        if column not in table:
            raise unknown_name("column", column, table.columns, all_of="repro results --csv")
        value = _value(condition, table[column], comparison, text)
        table = table[COMPARISONS[comparison](table[column], value).fillna(False) & table[column].notna()]
    return table


def _value(condition: str, column: pd.Series, comparison: str, text: str) -> Any:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_bool_dtype(column):
        if text.lower() not in ("true", "false") or comparison not in ("=", "!="):
            raise InputError(f"where {condition}: must be =true or =false")
        return text.lower() == "true"
    if is_numeric_dtype(column):
        try:
            return float(text)
        except ValueError:
            raise InputError(f"where {condition}: '{text}' is not a number") from None
    if comparison not in ("=", "!="):
        raise InputError(f"where {condition}: {column.name} holds text; use = or !=")
    return text
