"""Select rows of a table by columns, and compute columns by arithmetic: `phases.communicate + phases.wait`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd

Filter = dict[str, str | int | float | bool | list[str | int | float] | None]  # column -> its value, or allowed values
NAME = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*")
ARITHMETIC = re.compile(r"[\w\s.+\-*/()]+")  # no `@`, with which pandas reads Python's variables
CALL = re.compile(r"[\w.)]\s*\(")


def chosen(table: pd.DataFrame, where: Filter) -> pd.DataFrame:
    """The rows that match a filter in every column; InputError for a column that the table lacks."""
    for column, wanted in where.items():
        if column not in table:
            raise unknown("column", column, table.columns)
        values = table[column]
        match = (
            values.isna() if wanted is None else values.isin(wanted) if isinstance(wanted, list) else values == wanted
        )
        table = table[match.to_numpy(dtype=bool, na_value=False)]
    return table


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
        raise unknown("column", missing[0], table.columns)
    try:
        numbers = table[needed].astype(float)
        if column in numbers:
            return numbers[column]
        result: Any = numbers.eval(NAME.sub(lambda name: f"`{name[0]}`", column), engine="python")
        return pd.Series(result, table.index, dtype=float)
    except (SyntaxError, ValueError, AttributeError):
        raise InputError(f"column '{column}': neither numbers nor arithmetic on columns of numbers") from None


@dataclass(frozen=True, eq=False)
class Lists:
    """The columns of a table as lists, each converted once, with None for missing values; faster than the frame."""

    table: pd.DataFrame
    _made: dict[str, list[Any]] = field(default_factory=dict)
    _computed: dict[str, list[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> Sequence[Any]:
        """A column; InputError if the table lacks it."""
        if name not in self._made:
            if name not in self.table:
                raise unknown("column", name, self.table.columns)
            self._made[name] = [None if value != value else value for value in self.table[name].tolist()]
        return self._made[name]

    def computed(self, column: str) -> Sequence[float]:
        """`computed` of the table, as a list."""
        if column not in self._computed:
            self._computed[column] = computed(self.table, column).tolist()
        return self._computed[column]

    def chosen(self, where: Filter) -> Sequence[int]:
        """The positions of the rows that match a filter."""
        rows: Sequence[int] = range(len(self))
        for column, wanted in where.items():
            values, allowed = self[column], wanted if isinstance(wanted, list) else [wanted]
            rows = [n for n in rows if values[n] in allowed]
        return rows
