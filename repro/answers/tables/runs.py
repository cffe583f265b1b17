"""Runs and what they say as tables: `frame`, a row a run, and `rows`, an entry each of what a probe found."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import pandas as pd

from repro.answers.tables.columns import Lists, chosen
from repro.answers.tables.loading import Summary
from repro.answers.tables.resolution import resolved
from repro.records import tidy

ENDS = {"": "median", "_low": "min", "_high": "max"}  # of a column of repeated steps
OF_A_RUN = ("final.", "counters.", "phases.", "result.", "pipeline.", "step.")  # mappings: each run has what it has
OF_RANKS = "per_rank."  # what each rank says of itself
OF_CURVE = "loss."
TARGET = "to_"
RECORDED = (*OF_A_RUN, OF_RANKS, OF_CURVE, TARGET)  # of columns that a run may lack


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of a paper that may stand together, by number; the rows of `frame` have the number of their run.

    A run of the validation's program has a row a strategy that it timed.
    """

    records: Mapping[int, Summary]
    frame: pd.DataFrame
    _lists: dict[str, Lists] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Summary]) -> Runs:
        every = dict(enumerate(records))
        rows = [(number, row) for number, run in every.items() for row in _rows(run)]
        index = [number for number, _ in rows]
        return cls(every, pd.DataFrame([row for _, row in rows], index=index))

    def __len__(self) -> int:
        return len(self.records)

    def only(self, numbers: Iterable[int]) -> Runs:
        """Some of the runs, in that order."""
        found = list(numbers)
        return Runs({number: self.records[number] for number in found}, self.frame.loc[found])

    def where(self, **columns: Any) -> Runs:
        """The runs whose columns have these values."""
        if not len(self):
            return self
        return self.only(dict.fromkeys(chosen(self.frame, columns).index))

    def seeds(self, variant: str, breakdown: bool = False) -> dict[int, Summary]:
        """seed -> the run of a variant; breakdown: where there are any, those whose phases count and times do not."""
        found: dict[bool, dict[int, Summary]] = {True: {}, False: {}}
        for run in self.records.values():
            if run["variant"] == variant:
                found[run.get("breakdown") is True][run["seed"]] = run
        return dict(sorted(((breakdown and found[True]) or found[False]).items()))

    def by_seed(self) -> dict[int, list[Summary]]:
        found: dict[int, list[Summary]] = {}
        for run in self.records.values():
            found.setdefault(run["seed"], []).append(run)
        return dict(sorted(found.items()))

    @cached_property
    def rows(self) -> pd.DataFrame:
        """An entry of a list that a probe found: the columns of its run and its own; its variant, where it has one."""
        own = [
            (number, row | {"variant": row.get("variant", run.get("program"))})
            for number, run in self.records.items()
            for row in tidy.rows("rows", run)
        ]
        if not own:
            return pd.DataFrame()
        entries = pd.DataFrame([row for _, row in own], index=[number for number, _ in own])
        return self.frame[self.frame.columns.difference(entries.columns)].join(entries, how="inner")

    def lists(self, name: str) -> Lists:
        """`rows`, or else the frame, read by columns."""
        return self._lists.setdefault(name, Lists(self.rows if name == "rows" else self.frame))

    @cached_property
    def columns(self) -> Collection[str]:
        """Those in which some run has something."""
        there = self.frame.notna().any()
        return {*there.index[there], *(self.rows.columns if len(self.rows) else ())}

    # --- of the first run, as of all

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
        """Time was modelled without arithmetic: there are no accuracies and no curves."""
        return self.program == "train" and timing_only(self.first)


def timing_only(run: Summary) -> bool:
    """Did this run (on a testbed with `arithmetic: none`) model time and compute nothing?"""
    return bool(run["final"][run["metric"]] is None)


def _rows(run: Summary) -> list[dict[str, Any]]:
    own = row_of(run)
    if run.get("program") == "validation":
        return [own | _validated(row) for row in run["result"]["rows"]]
    return [own | resolved(run)]


def _validated(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a strategy that the validation ran: its step, the turns' median, least and most."""
    return {"variant": row["variant"], "bytes": row["bytes"], "breakdown": False} | {
        f"iteration_s{end}": row["observed_s"][which] for end, which in ENDS.items()
    }


def row_of(run: Summary) -> dict[str, Any]:
    """A run's row: its tidy one, all that it counted, found and scored (`OF_A_RUN`) by the path to it, of what its
    ranks say (`per_rank.`) the means over those that say it, seconds and iterations to a target (`to_`; infinity where
    it was not reached), and of its training losses, each the mean since the last stop, the `loss.last`, and by how much
    it has `fallen` since the first stop (NaN where it has not).

    Runs of a probe are of one variant, the program, whatever they are called.
    """
    more = {f"{part}{name}": value for part in OF_A_RUN for name, value in tidy.flat(run.get(part[:-1]) or {})}
    said: dict[str, list[float]] = {}
    for name, value in (entry for rank in run.get("per_rank") or () for entry in tidy.flat(rank, OF_RANKS)):
        if isinstance(value, int | float):
            said.setdefault(name, []).append(value)
    more |= {name: fmean(values) for name, values in said.items()}
    for name, at in (run.get("targets") or {}).items():
        more[f"{TARGET}{name}_s"] = at["train_s"] if at else math.inf
        more[f"{TARGET}{name}_iterations"] = at.get("iteration", math.nan) if at else math.inf
    if losses := [point["loss"] for point in run.get("curve") or () if point.get("loss") is not None]:
        fallen = losses[0] - losses[-1]
        more |= {f"{OF_CURVE}last": losses[-1], f"{OF_CURVE}fallen": fallen if fallen > 0 else math.nan}
    own = tidy.run(run) | more | {"root": run.get("root")}
    return own if run.get("program", "train") == "train" else own | {"variant": run["program"]}
