"""Which rows of a table a claim or a figure is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.common.errors import unknown

if TYPE_CHECKING:
    import pandas as pd

Filter = dict[str, str | int | float | bool | list[str | int | float]]  # column -> its value, or one of several


def chosen(table: pd.DataFrame, where: Filter) -> pd.DataFrame:
    """The rows for which every column holds what is asked for; InputError for a column that is not there."""
    for column, wanted in where.items():
        if column not in table:
            raise unknown("column", column, table.columns)
        table = table[table[column].isin(wanted if isinstance(wanted, list) else [wanted])]
    return table
