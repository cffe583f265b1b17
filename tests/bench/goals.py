"""The benchmarks' goals: read from their experiments (entry `goals`) and judged on the records of their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from pydantic import Field, model_validator

from repro.answers.tables import columns
from repro.core.errors import InputError
from repro.core.fields import Entries, Model, Number, Text, check_fields
from repro.core.not_none import not_none
from repro.experiment.files import own_file
from repro.records.filters import select_rows
from repro.records.record import Found, Record
from repro.records.run_columns import run_row, scalar_entries
from repro.records.variants import WORKSPACE


class Goal(Model):
    """A bound on a number, judged once for each combination of the columns `by`.

    rows    the list of a probe's result that has the number; null: a row is a run. The columns of runs are those of
            `repro results`
    number  a column, or arithmetic on columns (`repro.answers.tables.columns`)
    only    a pandas query for the rows that count
    where   column -> its value in the rows that are judged
    over    column -> its value in the rows whose least number divides it
    """

    part = "goals"

    what: Text
    number: Text
    rows: Text | None = "rows"
    only: Text | None = None
    where: Entries = Field(default_factory=dict)
    over: Entries | None = None
    by: list[Text] = Field(default_factory=list)
    at_most: Number | int | None = None
    at_least: Number | int | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Goal:
        if (self.at_most is None) == (self.at_least is None):
            raise InputError(f"goals: '{self.what}' must have one of at_most and at_least")
        return self


def judge_experiment(name: str, records: Sequence[Record]) -> list[dict[str, Any]]:
    """The goals of an experiment, judged on its runs among `records`."""
    experiment = own_file(name)
    names = experiment["paper"], experiment["experiment"]
    runs = [record for record in records if (record.identity.paper, record.identity.experiment) == names]
    goals = [check_fields(Goal, goal, "goals") for goal in experiment.get("goals", ())]
    return [row for goal in goals for row in judge(goal, goal_rows(goal, runs))]


def goal_rows(goal: Goal, runs: Sequence[Record]) -> pd.DataFrame:
    """The runs as the table `runs`, or the entries of a list of their results beside the columns of their run, of which
    an entry's own of the same name takes the place."""
    rows: list[dict[str, Any]] = []
    for record in runs:
        run = run_row(Found(WORKSPACE, record))
        entries = [{}] if goal.rows is None else record.result.found[goal.rows]
        rows += [run | dict(scalar_entries(entry)) for entry in entries]
    return pd.DataFrame(rows)


def judge(goal: Goal, rows: pd.DataFrame) -> list[dict[str, Any]]:
    """{what, value, spread, bound, at_least, met} for each combination of `by`; [] where no row counts.

    value: the median over seeds; spread: their least and greatest. A goal without a value was not measured and not met.
    """
    if rows.empty:
        return [_judged(goal, goal.what, [])]
    if goal.only:
        rows = rows.query(goal.only, engine="python")
        if rows.empty:
            return []
    rows = rows.infer_objects()  # for a column that other rows lack
    number = rows.assign(number=columns.computed(rows, goal.number))
    keys = [*goal.by, "seed"]
    numbers = select_rows(number, goal.where).groupby(keys)["number"].min()
    if goal.over is not None:
        numbers = numbers / select_rows(number, goal.over).groupby(keys)["number"].min()
    if numbers.empty or not goal.by:
        return [_judged(goal, goal.what, numbers.tolist())]
    judgements = []
    for key, values in numbers.groupby(level=goal.by, sort=False):
        places = key if isinstance(key, tuple) else (key,)
        where = map(_place, goal.by, places)
        judgements.append(_judged(goal, ", ".join([goal.what, *where]), values.tolist()))
    return judgements


def _place(column: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g} {column}"


def _judged(goal: Goal, what: str, values: Sequence[float]) -> dict[str, Any]:
    series = pd.Series(values, dtype=float).dropna()
    value = None if series.empty else float(series.median())
    at_least = goal.at_least is not None
    bound = not_none(goal.at_least if at_least else goal.at_most)
    met = value is not None and bool(value >= bound if at_least else value <= bound)
    spread = [float(series.min()), float(series.max())] if len(series) > 1 else None
    return {"what": what, "value": value, "spread": spread, "bound": bound, "at_least": at_least, "met": met}


def text(judgements: Sequence[Mapping[str, Any]]) -> str:
    """A line a goal."""
    lines = []
    for goal in judgements:
        value = "not measured" if goal["value"] is None else f"{goal['value']:.3g}"
        spread = "" if goal["spread"] is None else " ({:.3g} to {:.3g})".format(*goal["spread"])
        bound = f"goal at {'least' if goal['at_least'] else 'most'} {goal['bound']:g}"
        lines.append(f"  {'met    ' if goal['met'] else 'NOT MET'} {goal['what']}: {value}{spread}, {bound}")
    return "\n".join(lines)
