"""Specifications of a page's experiments, figures and tables (`figures.yaml`), and the rows that each one shows.

`drawing` draws the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from repro.answers.claims.stats import format_number
from repro.answers.figures.looks import display_name
from repro.answers.tables.columns import Filter, computed, find_columns
from repro.core import user_files
from repro.core.errors import InputError, unknown_name
from repro.core.fields import Model, Positive, Text, check_fields
from repro.records.filters import select_rows

if TYPE_CHECKING:
    import pandas as pd

MEASURE, VALUE = "measure", "value"  # columns that hold several columns of a table, one a row


class Shown(Model):
    """The rows of a figure or table. table: `runs`, `points`, `rows` or `intervals` of the experiments
    (`repro.records.tables`), or a table of that name in the page's `tables.py`."""

    part = "figure"

    title: str
    table: Text
    experiment: Text | list[Text] = Field(default_factory=list)
    where: Filter = Field(default_factory=dict)
    caption: str = ""  # Markdown, after the title


Range = Annotated[list[float | None], Field(min_length=2, max_length=2)]  # from and to; None: where the data end


class View(Model):
    """A panel with its own limits of the axes."""

    part = "view"

    title: str = ""
    x: Range | None = None
    y: Range | None = None


class Figure(Shown):
    """A figure.

    kind: `bar` and `dot` (names on y, numbers on x), `line`, `scatter`, `hist`, `box`; `stack`: bars stacked by `hue`,
    with `text` behind; `gantt`: boxes from `x` to `end` in the row `y`, with `text` inside.
    `reports/palette.yaml` defines colours, markers, dashes, display names and their order.

    Bars, dots and lines show medians over the rows at the same place, with their range; with `interval`, the columns
    `low` and `high` are the range, in rows that have them. style: the column for dashes and markers, if not hue.
    """

    alt: str  # the text for readers who cannot see the picture
    kind: Literal["bar", "dot", "line", "scatter", "hist", "box", "stack", "gantt"]
    x: Text
    y: Text | dict[str, str] | None = None  # several columns: column -> its name in the column `measure`
    hue: Text | None = None
    style: Text | None = None
    col: Text | None = None
    row: Text | None = None
    wrap: int | None = None  # panels in a row, if there is only `col`
    views: list[View] = Field(default_factory=list)  # instead of `row` and `col`
    end: Text | None = None  # Gantt chart: end of the box that begins at x
    text: Text | None = None
    order: list[str] = Field(default_factory=list)  # of names, if not the palette's
    log: Literal["", "x", "y", "xy"] = ""
    stat: Literal["count", "percent"] = "count"  # of a histogram; percent of the rows of a panel and hue
    interval: bool = False
    marked: bool = True  # a marker at each point of a line
    share_x: bool | Literal["row", "col"] = True
    share_y: bool | Literal["row", "col"] = True
    # reference lines: a value; name -> value; name -> place of the paper's number (place, row, variant, quantity)
    at: dict[Literal["x", "y"], float | dict[str, float | list[str]]] = Field(default_factory=dict)
    limits: dict[Literal["x", "y"], Range] = Field(default_factory=dict)
    values: bool = True  # numbers behind bars
    labels: dict[str, str] = Field(default_factory=dict)  # column -> label of its axis, with the unit
    panel_x: dict[str, str] = Field(default_factory=dict)  # value of col or row -> label of that panel's axis
    panel_y: dict[str, str] = Field(default_factory=dict)
    si: dict[Literal["x", "y"], str] = Field(
        default_factory=dict
    )  # units of axes whose ticks have SI prefixes: `10 MB`, `1 ms`
    height: Positive = 2.6  # inches, of a panel

    @property
    def column_y(self) -> str | None:
        """The column of `rows` on the y axis."""
        return VALUE if isinstance(self.y, dict) else self.y


class Table(Shown):
    """A table.

    columns: column, or arithmetic on columns, -> heading (all, where none is named); of every row, or medians over the
    rows with equal `index`.
    ranges: columns whose medians have their range in brackets. With `across`: a row for each `index`, a column for
    each value of `across`, and medians of `values` in the cells.
    """

    part = "table"

    columns: dict[str, str] = Field(default_factory=dict)
    index: list[Text] = Field(default_factory=list)
    across: Text | None = None
    values: Text | None = None
    ranges: list[Text] = Field(default_factory=list)
    digits: int = 3


class Experiment(Model):
    """An experiment of a page: which runs it shows together.

    family: patterns of experiment names that are shown under this name, each with its best runs. joins: other
    experiments whose runs belong to this one. where: a filter of the runs. named: ending of a variant's name -> model
    or data set of these runs. varies: conditions in which its variants differ (`variants.comparable`), or `all`.
    variants: their order. beside: experiments whose runs its claims read too. every_machine: show the runs of all
    machines. run: the argument of `repro run` that makes its runs, if not this name. tuned: how its learning rates were
    chosen, if they were tuned. baseline: the place of the paper's score of the baseline: place, row, variant, quantity.
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
    tuned: Text | None = None
    baseline: list[str] = Field(default_factory=list, max_length=4)

    def is_of(self, experiment: str) -> bool:
        """Whether an experiment belongs to the family."""
        return any(fnmatch(experiment, pattern) for pattern in self.family)


class File(Model):
    """The experiments, figures and tables of a page, by name."""

    part = "figures"

    experiments: dict[str, Experiment] = Field(default_factory=dict)
    figures: dict[str, Figure] = Field(default_factory=dict)
    tables: dict[str, Table] = Field(default_factory=dict)


def read(path: Path) -> File:
    """A file of specifications; InputError, in one line, if it is not one."""
    content = user_files.read_yaml(path, "figures file")
    try:
        return check_fields(File, content, "figures")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def rows(figure: Figure, table: pd.DataFrame) -> pd.DataFrame:
    """The rows and columns that a figure shows and its CSV file holds; empty without runs."""
    if isinstance(figure.y, dict):
        table = _long(figure, table, figure.y)
    named = (figure.x, figure.end, figure.column_y, figure.hue, figure.style, figure.col, figure.row, figure.text)
    axes = list(dict.fromkeys(column for column in named if column))
    _require(axes, table, f"figure '{figure.title}'")
    shown = select_rows(table, figure.where)
    more = ("kind", "seed", *(("low", "high") if figure.interval else ()))
    shown = shown[[*axes, *(column for column in more if column in table and column not in axes)]]
    complete = shown[[column for column in (figure.x, figure.column_y) if column]].notna().all(axis=1)
    shown = shown[complete | shown["low"].notna()] if figure.interval and "low" in shown else shown[complete]
    if figure.kind in ("bar", "dot", "stack") and shown[figure.x].map(lambda value: isinstance(value, str)).any():
        raise InputError(
            f"figure '{figure.title}': x: {figure.x} has names; a {figure.kind} has numbers on x, names on y"
        )
    return shown


def _long(figure: Figure, table: pd.DataFrame, measures: dict[str, str]) -> pd.DataFrame:
    """The table with the columns `measures` as rows of the column `measure`."""
    _require(measures, table, f"figure '{figure.title}'")
    rest = [column for column in table.columns if column not in measures]
    long = table.melt(rest, list(measures), MEASURE, VALUE)
    return long.assign(**{MEASURE: long[MEASURE].map(measures)})


def _require(columns: Iterable[str], table: pd.DataFrame, what: str) -> None:
    if missing := next((column for column in columns if column not in table), None):
        raise unknown_name(f"column of {what}", missing, table.columns)


TARGET = re.compile(r"to_.+_s")  # a column of `runs`: seconds to a target


def cells(table: Table, runs: pd.DataFrame) -> pd.DataFrame:
    """The table as text: medians over the rows with equal `index`, numbers to `digits` digits."""
    shown = select_rows(runs, table.where)
    targets = [column for column in table.columns if TARGET.fullmatch(column) and column not in shown]
    shown = shown.assign(**dict.fromkeys(targets, float("nan")))  # no run has these targets
    used = [name for column in (*table.columns, *table.index) for name in find_columns(column, shown.__contains__)]
    _require(used, shown, f"table '{table.title}'")
    ranges: dict[str, list[str]] = {}
    if table.across and table.values:
        shown = shown.pivot_table(index=table.index, columns=table.across, values=table.values, aggfunc="median",
                                  sort=False).reset_index()  # fmt: skip
        shown.columns.name = None
    else:
        shown = shown.assign(**{column: computed(shown, column) for column in table.columns if column not in shown})
        if table.index:
            groups = shown.groupby(table.index, sort=False)
            ranges = {column: [_range(values, table.digits) for _, values in groups[column]] for column in table.ranges}
            shown = groups.median(numeric_only=True).reset_index()
        shown = shown.reindex(columns=list(table.columns or shown))  # a column without numbers has no median
    text = shown.map(
        lambda value: format_number(value, table.digits) if isinstance(value, int | float) else display_name(value)
    )
    for column, texts in ranges.items():
        text[column] += texts
    return text.rename(columns=table.columns)


def _range(values: pd.Series, digits: int) -> str:
    """` (1.0 to 2.0)`; empty if all values are equal."""
    low, high = values.min(), values.max()
    return f" ({format_number(low, digits)} to {format_number(high, digits)})" if low < high else ""
