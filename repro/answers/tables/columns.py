"""Columns of a table, and arithmetic on several: `phases.communicate + phases.wait`, `iteration_s / batch`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd

Filter = dict[str, str | int | float | bool | list[str | int | float] | None]  # column -> its value, or one of several
NAME = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*")
ARITHMETIC = re.compile(r"[\w\s.+\-*/()]+")  # of names and numbers: no `@`, which reaches Python's variables
CALL = re.compile(r"[\w.)]\s*\(")


def chosen(table: pd.DataFrame, where: Filter) -> pd.DataFrame:
    """The rows that have in every column one of the values asked for; InputError for a column that is not there."""
    mine = None
    for column, wanted in where.items():
        if column not in table:
            raise unknown("column", column, table.columns)
        of = table[column]
        there = of.isna() if wanted is None else of.isin(wanted) if isinstance(wanted, list) else of == wanted
        mine = there if mine is None else mine & there
    return table if mine is None else table[mine.to_numpy(dtype=bool)]


def names(column: str, table: pd.DataFrame) -> list[str]:
    """The columns that a column is computed from; itself where the table has it. InputError for what is neither."""
    if column in table:
        return [column]
    if not ARITHMETIC.fullmatch(column) or CALL.search(column):
        raise InputError(f"column '{column}': neither a column's name nor arithmetic on columns")
    return list(dict.fromkeys(NAME.findall(column)))


def computed(table: pd.DataFrame, column: str) -> pd.Series:
    """A number a row, NaN where something is not there; InputError for a column that the table lacks."""
    import pandas as pd

    needed = names(column, table)
    if missing := [name for name in needed if name not in table]:
        raise unknown("column", missing[0], table.columns)
    try:
        numbers = table[needed].astype(float)
        if column in numbers:
            return numbers[column]
        found: Any = numbers.eval(NAME.sub(lambda name: f"`{name[0]}`", column), engine="python")
        return pd.Series(found, table.index, dtype=float)
    except (SyntaxError, ValueError, AttributeError):
        raise InputError(f"column '{column}': neither numbers nor arithmetic on columns of numbers") from None


@dataclass(frozen=True, eq=False)
class Lists:
    """The columns of a table as lists, each made once, with None where a row has nothing."""

    table: pd.DataFrame
    _made: dict[str, list[Any]] = field(default_factory=dict)
    _computed: dict[str, list[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> Sequence[Any]:
        """InputError for a column that is not there."""
        if name not in self._made:
            if name not in self.table:
                raise unknown("column", name, self.table.columns)
            self._made[name] = [None if value != value else value for value in self.table[name].tolist()]
        return self._made[name]

    def computed(self, column: str) -> Sequence[float]:
        """As the function of that name."""
        if column not in self._computed:
            self._computed[column] = computed(self.table, column).tolist()
        return self._computed[column]

    def chosen(self, where: Filter) -> Sequence[int]:
        """The numbers of the rows that have in every column one of the values asked for."""
        found: Sequence[int] = range(len(self))
        for column, wanted in where.items():
            values, any_of = self[column], wanted if isinstance(wanted, list) else [wanted]
            found = [n for n in found if values[n] in any_of]
        return found
