"""Runs as tables: `frame` with a row a run, `rows` with a row for each entry of a probe's result."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import pandas as pd

from repro.answers.tables.columns import Filter, computed
from repro.answers.tables.loading import Summary
from repro.core.wilson import wilson_bound
from repro.records import tidy
from repro.records.filters import list_column, match_rows, select_rows

ENDS = {"": "median", "_low": "min", "_high": "max"}  # suffix of a column of repeated steps -> their statistic
SHARES = ("top1", "top5")  # metrics that are a share of the test set
OF_A_RUN = ("final.", "counters.", "phases.", "result.", "pipeline.", "step.")  # mappings whose entries become columns
OF_RANKS = "per_rank."  # mean over the ranks that report an entry
OF_CURVE = "loss."
TARGET = "to_"
RECORDED = (*OF_A_RUN, OF_RANKS, OF_CURVE, TARGET)  # prefixes of columns that a run may lack


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of a paper by number; the index of `frame` is that number.

    A run of the validation's program has a row for each strategy that it timed.
    """

    records: Mapping[int, Summary]
    frame: pd.DataFrame
    _listed: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Summary]) -> Runs:
        every = dict(enumerate(records))
        rows = [(number, row) for number, run in every.items() for row in _rows(run)]
        index = [number for number, _ in rows]
        return cls(every, pd.DataFrame([row for _, row in rows], index=index))

    def __len__(self) -> int:
        return len(self.records)

    def only(self, numbers: Iterable[int]) -> Runs:
        """Some of the runs, in the given order."""
        own = list(numbers)
        return Runs({number: self.records[number] for number in own}, self.frame.loc[own])

    def where(self, **columns: Any) -> Runs:
        """The runs whose columns have these values."""
        if not len(self):
            return self
        return self.only(dict.fromkeys(select_rows(self.frame, columns).index))

    def seeds(self, variant: str, breakdown: bool = False) -> dict[int, Summary]:
        """seed -> the run of a variant; breakdown: prefer breakdown runs, whose phases count and whose times do not."""
        runs: dict[bool, dict[int, Summary]] = {True: {}, False: {}}
        for run in self.records.values():
            if run["variant"] == variant:
                runs[run.get("breakdown") is True][run["seed"]] = run
        return dict(sorted(((breakdown and runs[True]) or runs[False]).items()))

    def by_seed(self) -> dict[int, list[Summary]]:
        runs: dict[int, list[Summary]] = {}
        for run in self.records.values():
            runs.setdefault(run["seed"], []).append(run)
        return dict(sorted(runs.items()))

    @cached_property
    def rows(self) -> pd.DataFrame:
        """A row for each entry of the lists in probes' results: its own columns and those of its run."""
        own = [
            (number, row | {"variant": row.get("variant", run.get("program"))})
            for number, run in self.records.items()
            for row in tidy.rows("rows", run)
        ]
        if not own:
            return pd.DataFrame()
        entries = pd.DataFrame([row for _, row in own], index=[number for number, _ in own])
        return self.frame[self.frame.columns.difference(entries.columns)].join(entries, how="inner")

    def table(self, name: str) -> pd.DataFrame:
        """`rows`, or else the frame."""
        return self.rows if name == "rows" else self.frame

    def listed(self, table: str, column: str) -> list[Any]:
        """A column of a table, with None for missing values; after `=` arithmetic on columns as numbers."""
        if (table, column) not in self._listed:
            of = self.table(table)
            values = computed(of, column[1:]).tolist() if column.startswith("=") else list_column(of, column)
            self._listed[table, column] = values
        return self._listed[table, column]

    def matching(self, table: str, where: Filter) -> list[int]:
        """The positions of a table's rows that match a filter in every column; none in an empty table."""
        rows = range(len(self.table(table)))
        return match_rows({name: self.listed(table, name) for name in where}, where, rows) if rows else []

    @cached_property
    def columns(self) -> Collection[str]:
        """The columns in which some run has a value."""
        return {*self.frame.columns[self.frame.notna().any()], *(self.rows.columns if len(self.rows) else ())}

    # --- what all runs have in common, from the first one

    @property
    def first(self) -> Summary:
        return next(iter(self.records.values()))

    @property
    def kind(self) -> str:
        return str(self.first["kind"])

    @property
    def program(self) -> str:
        return str(self.first.get("program", "train"))

    @property
    def standin(self) -> bool:
        return bool(self.frame["standin"].eq(True).any())

    @property
    def timing_only(self) -> bool:
        """Whether only time was modelled, so that there are no accuracies and no curves."""
        return self.program == "train" and timing_only(self.first)


def timing_only(run: Summary) -> bool:
    """Whether a run modelled time and computed nothing (a testbed with `arithmetic: none`)."""
    return bool(run["final"][run["metric"]] is None)


def _rows(run: Summary) -> list[dict[str, Any]]:
    own = row_of(run)
    if run.get("program") == "validation":
        return [own | _validated(row) for row in run["result"]["rows"]]
    return [own | resolved(run)]


def _validated(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a strategy that the validation timed: median, least and greatest step over its turns."""
    return {"variant": row["variant"], "bytes": row["bytes"], "breakdown": False} | {
        f"iteration_s{end}": row["observed_s"][which] for end, which in ENDS.items()
    }


def row_of(run: Summary) -> dict[str, Any]:
    """A run's row: the columns of `tidy.run`, and more.

    More are: the entries of the mappings `OF_A_RUN` by their paths; means over ranks (`per_rank.`); seconds and
    iterations to each target (`to_`; infinity if not reached); the last training loss (`loss.last`, a mean since the
    last stop) and by how much it has `fallen` since the first stop (NaN if it has not). The variant of a probe's run is
    its program.
    """
    more = {f"{part}{name}": value for part in OF_A_RUN for name, value in tidy.flat(run.get(part[:-1]) or {})}
    of_ranks: dict[str, list[float]] = {}
    for name, value in (entry for rank in run.get("per_rank") or () for entry in tidy.flat(rank, OF_RANKS)):
        if isinstance(value, int | float):
            of_ranks.setdefault(name, []).append(value)
    more |= {name: fmean(values) for name, values in of_ranks.items()}
    for name, at in (run.get("targets") or {}).items():
        more[f"{TARGET}{name}_s"] = at["train_s"] if at else math.inf
        more[f"{TARGET}{name}_iterations"] = at.get("iteration", math.nan) if at else math.inf
    if losses := [point["loss"] for point in run.get("curve") or () if point.get("loss") is not None]:
        fallen = losses[0] - losses[-1]
        more |= {f"{OF_CURVE}last": losses[-1], f"{OF_CURVE}fallen": fallen if fallen > 0 else math.nan}
    own = tidy.run(run) | more | {"root": run.get("root")}
    return own if run.get("program", "train") == "train" else own | {"variant": run["program"]}


def resolved(run: Summary) -> dict[str, float]:
    """The final accuracy minus and plus its standard error as a share of the test set: `final_low`, `final_high`."""
    metric, final = run.get("metric"), run.get("final") or {}
    examples = (run.get("dataset") or {}).get("test") or 0
    if metric not in SHARES or final.get(metric) is None or not examples:
        return {}
    return {f"final{end}": wilson_bound(final[metric], examples, sign) for end, sign in (("_low", -1), ("_high", 1))}
