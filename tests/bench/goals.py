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
    machine a pandas query for the runs of the machines that the goal is for; on others the goal is `not_here`
    where   column -> its value in the rows that are judged
    over    column -> its value in the rows whose least number divides it
    floor   column -> its value in the rows of a bare program, which does only the necessary part: shown beside it
    """

    part = "goals"

    what: Text
    number: Text
    rows: Text | None = "rows"
    only: Text | None = None
    machine: Text | None = None
    where: Entries = Field(default_factory=dict)
    over: Entries | None = None
    floor: Entries | None = None
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
    """Results as of `_judged`, one for each combination of `by`; [] where no row counts.

    value: the median over seeds; spread: their least and greatest. A goal without a value was not measured and not met.
    not_here: why this machine cannot tell, or null.
    """
    if rows.empty:
        return [_judged(goal, goal.what, [])]
    if goal.machine and rows.query(goal.machine, engine="python").empty:
        return [_judged(goal, goal.what, [], not_here=f"requires {goal.machine}")]
    if goal.only:
        rows = rows.query(goal.only, engine="python")
        if rows.empty:
            return []
    rows = rows.infer_objects()  # for a column that other rows lack
    rows = rows.assign(number=columns.computed(rows, goal.number))
    numbers, floors = _numbers(goal, rows, goal.where), _numbers(goal, rows, goal.floor or {})
    if numbers.empty or not goal.by:
        return [_judged(goal, goal.what, numbers.tolist(), floors.tolist())]
    judgements = []
    for key, values in numbers.groupby(level=goal.by, sort=False):
        places = key if isinstance(key, tuple) else (key,)
        where = map(_place, goal.by, places)
        of_floor = floors[floors.index.isin(values.index)]
        judgements.append(_judged(goal, ", ".join([goal.what, *where]), values.tolist(), of_floor.tolist()))
    return judgements


def judge_not_here(name: str, reason: str) -> list[dict[str, Any]]:
    """The goals of an experiment that this machine cannot run."""
    goals = [check_fields(Goal, goal, "goals") for goal in own_file(name).get("goals", ())]
    return [_judged(goal, goal.what, [], not_here=reason) for goal in goals]


def _numbers(goal: Goal, rows: pd.DataFrame, where: Mapping[str, Any]) -> pd.Series:
    """The least `number` of the rows `where`, by the keys of the goal and the seed, divided by that of `over`."""
    keys = [*goal.by, "seed"]
    numbers = select_rows(rows, where).groupby(keys)["number"].min()
    return numbers if goal.over is None else numbers / select_rows(rows, goal.over).groupby(keys)["number"].min()


def _place(column: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g} {column}"


def _judged(
    goal: Goal, what: str, values: Sequence[float], floors: Sequence[float] = (), not_here: str | None = None
) -> dict[str, Any]:
    """{what, value, spread, floor, bound, at_least, met, not_here}."""
    series = pd.Series(values, dtype=float).dropna()
    value = None if series.empty else float(series.median())
    at_least = goal.at_least is not None
    bound = not_none(goal.at_least if at_least else goal.at_most)
    met = value is not None and bool(value >= bound if at_least else value <= bound)
    spread = [float(series.min()), float(series.max())] if len(series) > 1 else None
    floor = float(pd.Series(floors).median()) if goal.floor and floors else None
    return {
        "what": what, "value": value, "spread": spread, "floor": floor,
        "bound": bound, "at_least": at_least, "met": met, "not_here": not_here,
    }  # fmt: skip


def text(judgements: Sequence[Mapping[str, Any]]) -> str:
    """A line a goal."""
    return "\n".join(map(_line, judgements))


def _line(goal: Mapping[str, Any]) -> str:
    bound = f"goal at {'least' if goal['at_least'] else 'most'} {goal['bound']:g}"
    if goal["not_here"]:
        return f"  NOT HERE {goal['what']}: {goal['not_here']}; {bound}"
    value = "not measured" if goal["value"] is None else f"{goal['value']:.3g}"
    spread = "" if goal["spread"] is None else " ({:.3g} to {:.3g})".format(*goal["spread"])
    floor = "" if goal["floor"] is None else f", a bare program {goal['floor']:.3g}"
    return f"  {'met     ' if goal['met'] else 'NOT MET '} {goal['what']}: {value}{spread}, {bound}{floor}"
