"""Figures and tables as specifications: which runs stand together, which rows of a table are shown, what is on the
axes, what tells marks apart; seaborn draws the figures."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from repro.answers.claims.stats import number
from repro.answers.tables.columns import Filter, chosen
from repro.core import yaml_files
from repro.core.errors import InputError, unknown
from repro.core.fields import Model, Positive, Text, checked

if TYPE_CHECKING:
    import pandas as pd


class Shown(Model):
    """Where the rows are from. table: runs, points, rows or intervals of these experiments (`repro.records.tidy`), or
    one that the page makes by that name."""

    part = "figure"

    title: str
    table: Text
    experiment: Text | list[Text] = Field(default_factory=list)
    where: Filter = Field(default_factory=dict)
    caption: str = ""  # what has to be said beside it, Markdown


class Figure(Shown):
    """One figure. kind: of `seaborn.relplot`, `catplot` or `displot`; stack: bars of `y` on top of each other by `hue`;
    gantt: boxes from `x` to `end` in lines of `y`, with `text` in them (`repro.answers.figures.gantt`).

    Lines, bars and points are medians over the rows that share their place, with all that they range over.
    """

    alt: str  # what somebody who cannot see it is told
    kind: Literal["bar", "point", "strip", "box", "line", "scatter", "hist", "stack", "gantt"]
    x: Text
    y: Text | None = None
    hue: Text | None = None
    style: Text | None = None
    col: Text | None = None
    row: Text | None = None
    end: Text | None = None  # of a Gantt chart: where a box that begins at x ends, and what is written in it
    text: Text | None = None
    col_wrap: int | None = None
    order: list[str] | None = None  # of x
    hue_order: list[str] | None = None
    col_order: list[str] | None = None
    log: Literal["", "x", "y", "xy"] = ""
    stat: Literal["count", "percent"] = "count"  # of a histogram; percent: of the rows of each panel and hue
    share_x: bool = True
    share_y: bool = True
    at: dict[Literal["x", "y"], float] = Field(default_factory=dict)  # where a thin line stands: a target, no effect
    lowest: float | None = None  # where y begins
    values: bool = True  # on top of bars; of a stack in the middle of each part that has room
    colours: dict[str, str] = Field(default_factory=dict)  # of hue's values, where a colour says something
    labels: dict[str, str] = Field(default_factory=dict)  # column -> what an axis or legend calls it
    height: Positive = 3.6  # inches, of a panel
    aspect: Positive = 2.2


class Table(Shown):
    """One table. columns: column -> its heading; or index, with a cell of `values` for each value of `across`."""

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
    named = (figure.x, figure.end, figure.y, figure.hue, figure.style, figure.col, figure.row, figure.text)
    axes = list(dict.fromkeys(column for column in named if column))
    if missing := next((column for column in axes if column not in table), None):
        raise unknown(f"column of figure '{figure.title}'", missing, table.columns)
    shown = chosen(table, figure.where)
    told = [column for column in ("kind", "seed") if column in table and column not in axes]
    return shown[[*axes, *told]].dropna(subset=[column for column in (figure.x, figure.y) if column])


def cells(table: Table, found: pd.DataFrame) -> pd.DataFrame:
    """The table as text: medians over the rows that share their place, numbers to so many digits."""
    shown = chosen(found, table.where)
    if missing := next((c for c in (*table.columns, *table.index) if c not in shown), None):
        raise unknown(f"column of table '{table.title}'", missing, shown.columns)
    if table.across and table.values:
        shown = shown.pivot_table(index=table.index, columns=table.across, values=table.values, aggfunc="median",
                                  sort=False).reset_index()  # fmt: skip
        shown.columns.name = None
    else:
        shown = shown[list(table.columns)]
    text = shown.map(lambda value: number(value, table.digits) if isinstance(value, int | float) else str(value))
    return text.rename(columns=table.columns)
