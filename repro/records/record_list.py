"""Records as a list that a notebook shows as a table."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError
from repro.core.terminal import one_line
from repro.records.busy import taken_by_others
from repro.records.record import Found, Record
from repro.records.variants import WORKSPACE

if TYPE_CHECKING:
    import pandas as pd

# The columns for a screen, where they have a value; a frame has more.
ON_SCREEN = (
    *("variant", "testbed", "kind", "workers", "seed", "allreduce.auto", "step_s", "train_s", "peak_mb", "peak_of"),
    *("metric", "final", "busy", "warned", "origin"),
)
IF_DIFFERENT = ("dataset", "scale", "breakdown")  # shown where runs differ in them


class Records(list[Record]):
    """The records that `repro.run` returns."""

    def __repr__(self) -> str:
        return format_runs(frame(self), ("experiment",)) if self else "no records"

    def _repr_html_(self) -> str:
        if not self:
            return "no records"
        table = frame(self)
        notes = "".join(f"<p>{html.escape(line)}</p>" for line in warning_lines(table))
        return choose_columns(table, ("experiment",)).to_html(index=False, escape=True) + notes


def frame(records: Iterable[Record]) -> pd.DataFrame:
    """Records as the table `runs` of `repro.results`, a row each, with the columns that fit a screen first; InputError
    for anything else."""
    from repro.records.tables import build_table

    several = [*records] if isinstance(records, Iterable) and not isinstance(records, str) else [records]
    for record in several:
        if not isinstance(record, Record):
            raise InputError(f"frame {record!r:.60}: must be a record, as `repro.run` returns")
    table = build_table("runs", [Found(WORKSPACE, record) for record in several])
    first = [column for column in ("experiment", *ON_SCREEN) if column in table and table[column].notna().any()]
    return table[[*first, *(column for column in table if column not in first)]]


def format_runs(runs: pd.DataFrame, first: Iterable[str] = ()) -> str:
    """A table of runs for a terminal, with the columns `first` before others, and its warnings below."""
    from repro.records import printed

    return "\n".join([printed.text(choose_columns(runs, first), index=False), *warning_lines(runs)])


def choose_columns(runs: pd.DataFrame, first: Iterable[str] = ()) -> pd.DataFrame:
    """The columns of a table of runs that fit a screen: those of ON_SCREEN with values, and those that differ.

    busy: what others took of the machine while a run was measured; warned: whether it is in `warning_lines`.
    """
    taken = zip(runs["kind"], runs["cpu_taken_share"], strict=True)
    busy: list[Any] = [taken_by_others(kind, share) or None for kind, share in taken]
    warned: list[Any] = ["yes" if known else None for known in runs["warnings"].notna()]
    runs = runs.assign(busy=busy, warned=warned)
    having = [column for column in (*first, *ON_SCREEN) if column in runs and runs[column].notna().any()]
    return runs[having + [column for column in IF_DIFFERENT if column in runs and runs[column].nunique() > 1]]


def warning_lines(runs: pd.DataFrame) -> list[str]:
    """`Mine: the first updates are 4 times ...`: why numbers of a table of runs may be wrong, a line a variant."""
    warned = runs[runs["warnings"].notna()]
    pairs = zip(warned["variant"], warned["warnings"], strict=True)
    return [one_line(f"{variant}: {text}") for variant, text in dict.fromkeys(pairs)]
