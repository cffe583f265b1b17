"""Select rows of a table by conditions on its columns.

A condition is text (`workers=4`, `step_s<0.1`, `strategy!=dsync`), or an entry of a mapping, column -> its value or
allowed values (`{"workers": [4, 8]}`; None: no value).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

Value = str | int | float | bool | None
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_TEXT = re.compile(r"\s*([^=!<>]+?)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """The values of a column that count. For `=` equal to any of `values`; for another comparison there is one value,
    and a missing value does not count."""

    column: str
    comparison: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.column}{self.comparison}{', '.join(map(str, self.values))}"

    @property
    def holds(self) -> Callable[[Value], bool]:
        """Whether a value counts."""
        if self.comparison == "=":
            return self.values.__contains__
        compare, wanted = COMPARISONS[self.comparison], self.values[0]
        return lambda value: value is not None and compare(value, wanted)


Where = str | Sequence[str | Condition] | Mapping[str, Any]


def parse_conditions(where: Where) -> list[Condition]:
    """The conditions of a text, several texts, or a mapping; InputError for anything else."""
    if isinstance(where, Mapping) and all(isinstance(name, str) for name in where):
        return [Condition(name, "=", _several(value)) for name, value in where.items()]
    several = [where] if isinstance(where, str) else where
    if not isinstance(several, Iterable) or not all(isinstance(each, str | Condition) for each in several):
        raise InputError(f"where {where}: must be a text, several, or a mapping of columns to values")
    return [each if isinstance(each, Condition) else _parse_text(each) for each in several]


def _several(value: Value | Iterable[Value]) -> tuple[Value, ...]:
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)


def _parse_text(text: str) -> Condition:
    if (parts := _TEXT.fullmatch(text)) is None:
        raise InputError(f"where {text}: must be COLUMN, one of {' '.join(COMPARISONS)}, and a value")
    return Condition(parts[1], parts[2], (parts[3].strip(),))


def select_rows(table: pd.DataFrame, where: Where) -> pd.DataFrame:
    """The rows for which every condition holds.

    Raises InputError for an invalid condition, an unknown column and a value of another type than the column's.
    """
    conditions = parse_conditions(where)
    columns = {each.column: list_column(table, each.column) for each in conditions}
    typed = [_as_column(each, table[each.column]) for each in conditions]
    return table.iloc[match_rows(columns, typed, range(len(table)))]


def match_rows(columns: Mapping[str, Sequence[Value]], where: Where, rows: Iterable[int]) -> list[int]:
    """Those of some rows for which every condition holds. columns: with None for missing values."""
    rows = list(rows)
    for condition in parse_conditions(where):
        values, holds = columns[condition.column], condition.holds
        rows = [row for row in rows if holds(values[row])]
    return rows


def list_column(table: pd.DataFrame, name: str) -> list[Any]:
    """A column with None for missing values; InputError if the table lacks it."""
    if name not in table:
        raise unknown_name("column", name, table.columns, all_of="repro results --csv")
    values, missing = table[name].tolist(), table[name].isna().tolist()
    return [None if lacks else value for value, lacks in zip(values, missing, strict=True)]


def _as_column(condition: Condition, column: pd.Series) -> Condition:
    """The condition with the texts among its values as numbers or truths, if these are what the column holds."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    ordered = condition.comparison not in ("=", "!=")
    if is_bool_dtype(column):
        truths = {"true": True, "false": False}
        values = [truths.get(each.lower()) if isinstance(each, str) else each for each in condition.values]
        if ordered or None in values:
            raise InputError(f"where {condition}: must be =true or =false")
        return replace(condition, values=tuple(values))
    if is_numeric_dtype(column):
        return replace(condition, values=tuple(_number(condition, each) for each in condition.values))
    if ordered:
        raise InputError(f"where {condition}: {column.name} holds text; use = or !=")
    return condition


def check_numbers(condition: Condition) -> None:
    """InputError for a text that is no number among the values for a column of numbers."""
    for each in condition.values:
        _number(condition, each)


def _number(condition: Condition, value: Value) -> Value:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        raise InputError(f"where {condition}: '{value}' must be a number") from None
