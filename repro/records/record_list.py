"""Records as a list that a notebook shows as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from repro.core.errors import InputError
from repro.records.record import Found, Record
from repro.records.variants import WORKSPACE

if TYPE_CHECKING:
    import pandas as pd

# The columns for a screen, where they have a value; a frame has more.
ON_SCREEN = (
    *("variant", "testbed", "kind", "workers", "seed", "allreduce.auto", "step_s", "train_s", "peak_mb", "peak_of"),
    *("metric", "final", "busy", "origin"),
)
IF_DIFFERENT = ("dataset", "scale", "breakdown")  # shown where runs differ in them


class Records(list[Record]):
    """The records that `repro.run` returns."""

    def __repr__(self) -> str:
        from repro.records import printed

        return printed.text(self._on_screen(), index=False) if self else "no records"

    def _repr_html_(self) -> str:
        return self._on_screen().to_html(index=False, escape=True) if self else "no records"

    def _on_screen(self) -> pd.DataFrame:
        table = frame(self)
        return table[columns_on_screen(table, ("experiment",))]


def frame(records: Iterable[Record]) -> pd.DataFrame:
    """Records as the table `runs` of `repro.results`, a row each; InputError for anything else."""
    from repro.records.tables import build_table

    several = [*records] if isinstance(records, Iterable) and not isinstance(records, str) else [records]
    for record in several:
        if not isinstance(record, Record):
            raise InputError(f"frame {record!r:.60}: must be a record, as `repro.run` returns")
    return build_table("runs", [Found(WORKSPACE, record) for record in several])


def columns_on_screen(runs: pd.DataFrame, first: Iterable[str] = ()) -> list[str]:
    """The columns of a table of runs that fit a screen: those of ON_SCREEN with values, and those that differ."""
    having = [column for column in (*first, *ON_SCREEN) if column in runs and runs[column].notna().any()]
    return having + [column for column in IF_DIFFERENT if column in runs and runs[column].nunique() > 1]
