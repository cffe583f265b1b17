"""Runs as tables: `frame` with a row a run, `rows` with a row for each entry of a probe's result."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import pandas as pd

from repro.answers.tables.columns import Filter, computed
from repro.core.errors import InputError
from repro.records.filters import list_column, match_rows, select_rows
from repro.records.record import Found
from repro.records.run_columns import result_row, run_row
from repro.records.tables import list_entries

Of = TypeVar("Of")


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of a paper by number; the index of `frame` is that number.

    whole: the frame of these runs and perhaps of others
    """

    records: Mapping[int, Found]
    whole: pd.DataFrame
    _listed: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Found]) -> Runs:
        every = dict(enumerate(records))
        return cls(every, make_frame([row_of(run) for run in every.values()], [*every]))

    @classmethod
    def of_results(cls, groups: Iterable[tuple[Found, Iterable[Found]]]) -> Runs:
        """The runs of groups, each of which has a run's identity but for the seed, and results of its own."""
        records: dict[int, Found] = {}
        rows = []
        for run, changed in groups:
            row = row_of(run)
            for each in changed:
                records[len(records)] = each
                rows.append(row | result_row(each))
        return cls(records, make_frame(rows))

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row a run. Made where it is read, because most groups are of a few runs whose records are enough."""
        chosen = [*self.records]
        return self.whole if self.whole.index.tolist() == chosen else self.whole.loc[chosen]

    def only(self, numbers: Iterable[int]) -> Runs:
        """Some of the runs, in the given order."""
        return Runs({number: self.records[number] for number in numbers}, self.whole)

    def joined(self, others: Runs) -> Runs:
        """These runs and others, which get new numbers."""
        start = 1 + max(self.records, default=-1)
        numbers = range(start, start + len(others))
        records = {**self.records, **dict(zip(numbers, others.records.values(), strict=True))}
        return Runs(records, pd.concat([self.frame, others.frame.set_axis(numbers)]))

    def where(self, **columns: Any) -> Runs:
        """The runs whose columns have these values."""
        if not len(self):
            return self
        return self.only(dict.fromkeys(select_rows(self.frame, columns).index))

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
        entries = make_frame([row for _, row in rows], [number for number, _ in rows])
        return self.frame[self.frame.columns.difference(entries.columns)].join(entries, how="inner")

    def table(self, name: str) -> pd.DataFrame:
        """`rows`, or else the frame."""
        return self.rows if name == "rows" else self.frame

    def listed(self, table: str, column: str) -> list[Any]:
        """A column of a table, with None for missing values; after `=` arithmetic on columns as numbers."""
        if (table, column) not in self._listed:
            rows = self.table(table)
            values = computed(rows, column[1:]).tolist() if column.startswith("=") else list_column(rows, column)
            self._listed[table, column] = values
        return self._listed[table, column]

    def matching(self, table: str, where: Filter) -> list[int]:
        """The positions of a table's rows that match a filter in every column; none in an empty table."""
        rows = range(len(self.table(table)))
        return match_rows({name: self.listed(table, name) for name in where}, where, rows) if rows else []

    def of_rows(self, table: str, rows: Iterable[int]) -> list[Found]:
        """The runs of a table's rows, by position, each once."""
        numbers = self.table(table).index
        return [self.records[number] for number in dict.fromkeys(numbers[row] for row in rows)]

    @cached_property
    def columns(self) -> Collection[str]:
        """The columns in which some run has a value."""
        return {*self.frame.columns[self.frame.notna().any()], *(self.rows.columns if len(self.rows) else ())}

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
        return bool(self.frame["standin"].eq(True).any())

    @property
    def timing_only(self) -> bool:
        """Whether only time was modelled, so that there are no accuracies and no curves."""
        return self.first.identity.trains and timing_only(self.first)


def choose_runs(runs: Mapping[bool, Of], breakdown: bool) -> Of:
    """Those with or without a breakdown. breakdown: its runs count, where there are any."""
    return (breakdown and runs[True]) or runs[False]


def timing_only(run: Found) -> bool:
    """Whether a training modelled time and computed nothing (a testbed with `arithmetic: none`)."""
    return run.training.final[run.identity.metric] is None


def make_frame(rows: Sequence[Mapping[str, Any]], index: list[int] | None = None) -> pd.DataFrame:
    """A DataFrame whose texts are Python's: choosing rows from hundreds of columns of Arrow's takes twice as long."""
    with pd.option_context("mode.string_storage", "python"):
        return pd.DataFrame(rows, index=index)


def row_of(run: Found) -> dict[str, Any]:
    """A run's row of the table `runs`, with its origin. The variant of a probe's run is its program."""
    row = run_row(run)
    return row if run.identity.trains else row | {"variant": run.identity.program}
