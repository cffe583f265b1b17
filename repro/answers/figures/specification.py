"""Figures and tables as specifications: which runs stand together, which rows of a table are shown, what is on the
axes, what tells marks apart; `drawing` draws the figures."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from repro.answers.claims.stats import number
from repro.answers.figures.looks import called
from repro.answers.tables.columns import Filter, chosen, computed, names
from repro.core import yaml_files
from repro.core.errors import InputError, unknown
from repro.core.fields import Model, Positive, Text, checked

if TYPE_CHECKING:
    import pandas as pd


MEASURE, VALUE = "measure", "value"  # columns of rows that are made of several columns


class Shown(Model):
    """Where the rows are from. table: runs, points, rows or intervals of these experiments (`repro.records.tidy`), or
    one that the page makes by that name."""

    part = "figure"

    title: str
    table: Text
    experiment: Text | list[Text] = Field(default_factory=list)
    where: Filter = Field(default_factory=dict)
    caption: str = ""  # what has to be said beside it, Markdown


Range = Annotated[list[float | None], Field(min_length=2, max_length=2)]  # from and to; None: where the data end


class View(Model):
    """One look at the rows of a figure, in a panel of its own: from and to on each axis."""

    part = "view"

    title: str = ""
    x: Range | None = None
    y: Range | None = None


class Figure(Shown):
    """One figure. kind: bar (names below), dot (names of `y` at the side, numbers of `x` across), line, scatter, hist,
    box; stack: bars of `y` on top of each other by `hue`, with `text` above; gantt: boxes from `x` to `end` in lines of
    `y`, with `text` in them. Colours, marks, dashes, names and their order are of `reports/palette.yaml`.

    Bars, dots and lines are medians over the rows that share their place, with all that they range over; interval: from
    the columns `low` to `high` instead, where rows have these. style: what tells dashes and marks of lines apart, where
    that is not their hue.
    """

    alt: str  # what somebody who cannot see it is told
    kind: Literal["bar", "dot", "line", "scatter", "hist", "box", "stack", "gantt"]
    x: Text
    y: Text | dict[str, str] | None = None  # several columns: column -> what it is called as a value of `measure`
    hue: Text | None = None
    style: Text | None = None
    col: Text | None = None
    row: Text | None = None
    wrap: int | None = None  # panels side by side, of `col` alone
    views: list[View] = Field(default_factory=list)  # instead of panels by values
    end: Text | None = None  # of a Gantt chart: where a box that begins at x ends
    text: Text | None = None
    order: list[str] = Field(default_factory=list)  # of names, where it is not the palette's
    log: Literal["", "x", "y", "xy"] = ""
    stat: Literal["count", "percent"] = "count"  # of a histogram; percent: of the rows of each panel and hue
    interval: bool = False
    marked: bool = True  # lines with a mark at each point
    share_x: bool = True
    share_y: bool = True
    # thin lines: a value, or name -> value, or the place of the paper's (place, row, variant, quantity)
    at: dict[Literal["x", "y"], float | dict[str, float | list[str]]] = Field(default_factory=dict)
    diagonal: bool = False  # a thin line where x and y are equal
    limits: dict[Literal["x", "y"], Range] = Field(default_factory=dict)
    values: bool = True  # on top of bars
    labels: dict[str, str] = Field(default_factory=dict)  # column -> what an axis calls it, with its unit
    panel_x: dict[str, str] = Field(default_factory=dict)  # value of col or row -> what that panel's axis is called
    panel_y: dict[str, str] = Field(default_factory=dict)
    si: dict[Literal["x", "y"], str] = Field(default_factory=dict)  # axes whose ticks have prefixes: `10 MB`, `1 ms`
    height: Positive = 2.6  # inches, of a panel

    @property
    def column_y(self) -> str | None:
        """The column that stands on y, of `rows`."""
        return VALUE if isinstance(self.y, dict) else self.y


class Table(Shown):
    """One table. columns: column, or arithmetic on several, -> its heading, of every row, or medians over the rows of
    the same `index`; or index, with a cell of `values` for each value of `across`."""

    part = "table"

    columns: dict[str, str] = Field(default_factory=dict)
    index: list[Text] = Field(default_factory=list)
    across: Text | None = None
    values: Text | None = None
    digits: int = 3


class Experiment(Model):
    """An experiment as its page shows it: which runs stand together.

    family: patterns of names of experiments, which stand together under this one's name, each with its best runs.
    joins: other experiments whose runs are of this one. where: which of the runs. named: ending of a name -> model or
    data set of the runs that are called so. varies: conditions in which its variants differ (`selection.conditions`),
    or `all`. variants: their order. beside: experiments whose runs its claims read too. every_machine:
    all of them side by side. run: what makes its runs, if that is not the experiment of this name.
    """

    part = "experiment"

    family: list[Text] = Field(default_factory=list)
    joins: list[Text] = Field(default_factory=list)
    where: Filter = Field(default_factory=dict)
    named: dict[str, dict[str, str]] = Field(default_factory=dict)
    varies: list[Text] = Field(default_factory=list)
    variants: list[Text] = Field(default_factory=list)
    beside: list[Text] = Field(default_factory=list)
    every_machine: bool = False
    run: Text | None = None

    def is_of(self, experiment: str) -> bool:
        """Whether a family has this member."""
        return any(fnmatch(experiment, pattern) for pattern in self.family)


class File(Model):
    """A file of experiments, figures and tables, by name."""

    part = "figures"

    experiments: dict[str, Experiment] = Field(default_factory=dict)

    figures: dict[str, Figure] = Field(default_factory=dict)
    tables: dict[str, Table] = Field(default_factory=dict)


def read(path: Path) -> File:
    """The figures and tables of a file; InputError in one line for anything else."""
    content = yaml_files.read(path, "figures file")
    try:
        return checked(File, content, "figures")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def rows(figure: Figure, table: pd.DataFrame) -> pd.DataFrame:
    """What a figure shows: the rows and columns that stand in the CSV beside it; empty where nothing has been run."""
    if isinstance(figure.y, dict):
        table = _long(figure, table, figure.y)
    named = (figure.x, figure.end, figure.column_y, figure.hue, figure.style, figure.col, figure.row, figure.text)
    axes = list(dict.fromkeys(column for column in named if column))
    if missing := next((column for column in axes if column not in table), None):
        raise unknown(f"column of figure '{figure.title}'", missing, table.columns)
    shown = chosen(table, figure.where)
    more = ("kind", "seed", *(("low", "high") if figure.interval else ()))
    told = [column for column in more if column in table and column not in axes]
    shown = shown[[*axes, *told]]
    there = shown[[column for column in (figure.x, figure.column_y) if column]].notna().all(axis=1)
    return shown[there | shown["low"].notna()] if figure.interval and "low" in shown else shown[there]


def _long(figure: Figure, table: pd.DataFrame, measures: dict[str, str]) -> pd.DataFrame:
    """A row for each of several columns, with what it is called."""
    if missing := next((column for column in measures if column not in table), None):
        raise unknown(f"column of figure '{figure.title}'", missing, table.columns)
    rest = [column for column in table.columns if column not in measures]
    long = table.melt(rest, list(measures), MEASURE, VALUE)
    return long.assign(**{MEASURE: long[MEASURE].map(measures)})


TARGET = re.compile(r"to_.+_s")  # a column of `runs`: seconds to a target


def cells(table: Table, found: pd.DataFrame) -> pd.DataFrame:
    """The table as text: medians over the rows that share their place, numbers to so many digits."""
    shown = chosen(found, table.where)
    targets = [column for column in table.columns if TARGET.fullmatch(column) and column not in shown]
    shown = shown.assign(**dict.fromkeys(targets, float("nan")))  # that none of these runs had
    used = [name for column in (*table.columns, *table.index) for name in names(column, shown)]
    if missing := next((column for column in used if column not in shown), None):
        raise unknown(f"column of table '{table.title}'", missing, shown.columns)
    if table.across and table.values:
        shown = shown.pivot_table(index=table.index, columns=table.across, values=table.values, aggfunc="median",
                                  sort=False).reset_index()  # fmt: skip
        shown.columns.name = None
    else:
        numbers = {column: computed(shown, column) for column in table.columns if column not in shown}
        shown = shown.assign(**numbers)
        if table.index:
            shown = shown.groupby(table.index, sort=False).median(numeric_only=True).reset_index()
        shown = shown.reindex(columns=list(table.columns))  # a column without numbers has no median
    text = shown.map(lambda value: number(value, table.digits) if isinstance(value, int | float) else called(value))
    return text.rename(columns=table.columns)
