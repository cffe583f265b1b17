"""Runs as tables: `frame` with a row a run, `rows` with a row for each entry of a probe's result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from repro.answers.tables.columns import Filter, computed, find_columns
from repro.core.errors import InputError, unknown_name
from repro.records.filters import list_column, match_rows
from repro.records.record import Found
from repro.records.run_columns import ABSENT, result_row, result_value, run_row
from repro.records.tables import list_entries

Of = TypeVar("Of")


class Row(NamedTuple):
    """A run's row of the table `runs`: `run`'s results in the place of those of `base`, where there is one. A claim
    reads a few of a hundred columns of ten thousand draws, so a column of these is computed when it is read."""

    base: Mapping[str, Any]
    run: Found | None = None

    def value(self, column: str) -> Any:
        """ABSENT without that column."""
        value = result_value(self.run, column) if self.run else ABSENT
        return self.base.get(column, ABSENT) if value is ABSENT else value

    def whole(self) -> dict[str, Any]:
        return {**self.base, **(result_row(self.run) if self.run else {})}


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of a paper by number, with their rows of the table `runs`. parts: runs whose columns the table has too."""

    records: Mapping[int, Found]
    row: Mapping[int, Row]
    parts: Sequence[Runs] = ()
    _listed: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    _has: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Found]) -> Runs:
        every = dict(enumerate(records))
        return cls(every, {number: Row(row_of(run)) for number, run in every.items()})

    @classmethod
    def of_results(cls, groups: Iterable[tuple[Found, Iterable[Found]]]) -> Runs:
        """The runs of groups, each of which has a run's identity but for the seed, and results of its own."""
        every = [(Row(base, each), each) for run, changed in groups for base in [row_of(run)] for each in changed]
        return cls(dict(enumerate(run for _, run in every)), dict(enumerate(row for row, _ in every)))

    def __len__(self) -> int:
        return len(self.records)

    def only(self, numbers: Iterable[int]) -> Runs:
        """Some of the runs, in the given order."""
        chosen = list(numbers)
        return Runs({n: self.records[n] for n in chosen}, {n: self.row[n] for n in chosen}, [self])

    def joined(self, others: Runs) -> Runs:
        """These runs and others, which get new numbers."""
        start = 1 + max(self.records, default=-1)
        numbers = range(start, start + len(others))
        records = {**self.records, **dict(zip(numbers, others.records.values(), strict=True))}
        return Runs(records, {**self.row, **dict(zip(numbers, others.row.values(), strict=True))}, [self, others])

    def where(self, **columns: Any) -> Runs:
        """The runs whose columns have these values."""
        numbers = [*self.row]
        return self.only(numbers[place] for place in self.matching("runs", columns))

    def seeds(self, variant: str, breakdown: bool = False, experiment: str | None = None) -> dict[int, Found]:
        """seed -> the run of a variant (of an experiment, where there are several); InputError for two of one seed.

        breakdown: prefer breakdown runs, whose phases count and whose times do not.
        """
        runs: dict[bool, dict[int, Found]] = {True: {}, False: {}}
        for run in self.records.values():
            if run.label == variant and experiment in (None, run.identity.experiment):
                other = runs[run.identity.breakdown].setdefault(run.identity.seed, run)
                if other is not run:
                    raise InputError(f"{variant}: {other.record.name} and {run.record.name} have the same seed")
        return dict(sorted(choose_runs(runs, breakdown).items()))

    def by_seed(self) -> dict[int, list[Found]]:
        runs: dict[int, list[Found]] = {}
        for run in self.records.values():
            runs.setdefault(run.identity.seed, []).append(run)
        return dict(sorted(runs.items()))

    # --- tables

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The table `runs`, whose index is the number of the run."""
        if not self.parts:
            return pd.DataFrame([row.whole() for row in self.row.values()], index=[*self.row])
        first, *more = [part.frame for part in self.parts]
        return pd.concat([first, *more], ignore_index=True).set_axis([*self.row]) if more else first.loc[[*self.row]]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """A row for each entry of the lists in probes' results: its own columns and those of its run."""
        rows = [
            (number, {"run": run.record.name, "variant": run.identity.program} | row)
            for number, run in self.records.items()
            for row in list_entries("rows", run.record)
        ]
        if not rows:
            return pd.DataFrame()
        entries = pd.DataFrame([row for _, row in rows], index=[number for number, _ in rows])
        return self.frame[self.frame.columns.difference(entries.columns)].join(entries, how="inner")

    def numbers_of(self, table: str) -> Sequence[int]:
        """The run of each row of a table, `runs` or `rows`, by number."""
        return self.rows.index.tolist() if table == "rows" else [*self.row]

    def has(self, table: str, column: str) -> bool:
        """Whether a table has a column."""
        if table == "rows":
            return column in self.rows
        if column not in self._has:
            here = any(row.value(column) is not ABSENT for row in self.row.values())
            self._has[column] = here or any(part.has(table, column) for part in self.parts)
        return self._has[column]

    def records_some(self, column: str) -> bool:
        """Whether some run, or some entry of a probe's result, has a value in a column."""
        in_runs = self.has("runs", column) and any(value is not None for value in self.listed("runs", column))
        return in_runs or (len(self.rows) > 0 and column in self.rows)

    def listed(self, table: str, column: str) -> list[Any]:
        """A column of a table, with None for missing values; after `=` arithmetic on columns as numbers."""
        if (table, column) not in self._listed:
            self._listed[table, column] = self._list(table, column)
        return self._listed[table, column]

    def _list(self, table: str, column: str) -> list[Any]:
        if column.startswith("="):
            needed = find_columns(column[1:], lambda name: self.has(table, name))
            known = all(self.has(table, name) for name in needed)
            return computed(self.columns(table, *needed) if known else self._whole(table), column[1:]).tolist()
        if table == "rows":
            return list_column(self.rows, column)
        if not self.has(table, column):
            raise unknown_name("column", column, self.frame.columns, all_of="repro results --csv")
        values = [row.value(column) for row in self.row.values()]
        return [None if value is ABSENT or value != value else value for value in values]

    def columns(self, table: str, *columns: str) -> pd.DataFrame:
        """Some columns of a table; InputError if it lacks one."""
        return pd.DataFrame({name: self.listed(table, name) for name in columns}, index=[*self.numbers_of(table)])

    def _whole(self, table: str) -> pd.DataFrame:
        return self.rows if table == "rows" else self.frame

    def matching(self, table: str, where: Filter) -> list[int]:
        """The positions of a table's rows that match a filter in every column; none in an empty table."""
        rows = range(len(self.numbers_of(table)))
        return match_rows({name: self.listed(table, name) for name in where}, where, rows) if rows else []

    def of_rows(self, table: str, rows: Iterable[int]) -> list[Found]:
        """The runs of a table's rows, by position, each once."""
        numbers = self.numbers_of(table)
        return [self.records[number] for number in dict.fromkeys(numbers[row] for row in rows)]

    # --- what all runs have in common, from the first one

    @property
    def first(self) -> Found:
        return next(iter(self.records.values()))

    @property
    def kind(self) -> str:
        return self.first.kind

    @property
    def program(self) -> str:
        return self.first.identity.program

    @property
    def standin(self) -> bool:
        return len(self) > 0 and any(value is True for value in self.listed("runs", "standin"))

    @property
    def timing_only(self) -> bool:
        """Whether only time was modelled, so that there are no accuracies and no curves."""
        return self.first.identity.trains and timing_only(self.first)


def has_real_sizes(run: Found) -> bool:
    """Whether a run's data are no stand-in of other sizes than the real ones."""
    return run.dataset is None or run.dataset.like_real


def choose_runs(runs: Mapping[bool, Of], breakdown: bool) -> Of:
    """Those with or without a breakdown. breakdown: its runs count, where there are any."""
    return (breakdown and runs[True]) or runs[False]


def timing_only(run: Found) -> bool:
    """Whether a training modelled time and computed nothing (a testbed with `arithmetic: none`)."""
    return run.training.final[run.identity.metric] is None


def row_of(run: Found) -> dict[str, Any]:
    """A run's row of the table `runs`, with its origin. The variant of a probe's run is its program."""
    row = run_row(run)
    return row if run.identity.trains else row | {"variant": run.identity.program}
