"""Figures and tables as specifications: which rows of a table, what is on the axes, what tells marks apart; seaborn
draws the figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import Field

from repro.common import yaml_files
from repro.common.errors import InputError, unknown
from repro.common.fields import Model, Positive, Text, checked
from repro.reporting import gantt
from repro.reporting.filters import Filter, chosen
from repro.reporting.stats import number

if TYPE_CHECKING:
    import pandas as pd

GRIDS = {"line": "relplot", "scatter": "relplot", "bar": "catplot", "point": "catplot", "strip": "catplot",
         "box": "catplot", "hist": "displot"}  # fmt: skip


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
    gantt: boxes from `x` to `end` in lines of `y`, with `text` in them (`repro.reporting.gantt`).

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


class File(Model):
    """A file of figures and tables, by name."""

    part = "figures"

    figures: dict[str, Figure] = Field(default_factory=dict)
    tables: dict[str, Table] = Field(default_factory=dict)


def read(path: Path) -> File:
    """The figures and tables of a file; InputError in one line for anything else."""
    try:
        return checked(File, yaml_files.read(path), "figures")
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not a readable figures file ({' '.join(str(error).split())})") from None
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


def draw(figure: Figure, shown: pd.DataFrame) -> Any:
    """The matplotlib figure of these rows."""
    import matplotlib

    matplotlib.use("Agg")
    import seaborn as sns

    with sns.axes_style("whitegrid"):
        if figure.kind == "gantt":
            return gantt.draw(figure, shown)
        grid = _stacked(figure, shown) if figure.kind == "stack" else _grid(figure, shown)
    for axis in grid.axes.flat:
        if figure.kind in ("bar", "stack") and figure.values:
            for bars in axis.containers:
                _label(axis, bars, figure.kind == "stack")
        for which, value in figure.at.items():
            (axis.axvline if which == "x" else axis.axhline)(value, color="0.4", linewidth=0.8, linestyle="--")
        if figure.lowest is not None:
            axis.set_ylim(figure.lowest, figure.lowest + 1.05 * (axis.dataLim.y1 - figure.lowest))
    grid.figure.suptitle(figure.title, x=0.01, ha="left", fontsize=11)
    grid.figure.set_layout_engine("constrained")
    return grid.figure


def _label(axis: Any, bars: Any, inside: bool) -> None:
    """The value of each bar: on its top, or inside where it is high enough to be read."""
    room = 0.04 * (axis.get_ylim()[1] - axis.get_ylim()[0]) if inside else 0.0
    said = [number(bar.get_height()) if bar.get_height() > room else "" for bar in bars]
    where = {"label_type": "center"} if inside else {"padding": 2}
    axis.bar_label(bars, said, fontsize=7, **where)


def _grid(figure: Figure, shown: pd.DataFrame) -> Any:
    """A grid of panels by seaborn's figure-level function of that kind."""
    import seaborn as sns

    function = getattr(sns, GRIDS[figure.kind])
    names = ("kind", "x", "y", "hue", "hue_order", "col", "row", "col_wrap", "col_order", "height", "aspect")
    given: dict[str, Any] = {"data": shown} | {name: getattr(figure, name) for name in names}
    given["facet_kws"] = {"sharex": figure.share_x, "sharey": figure.share_y}
    if figure.hue:
        given["palette"] = sns.color_palette("colorblind", len(figure.hue_order or shown[figure.hue].unique()))
    if function is sns.displot:
        given |= {"stat": figure.stat, "common_norm": False, "element": "step"}
    else:
        spread = {"estimator": "median", "errorbar": ("pi", 100)}
        given |= spread if figure.kind in ("line", "bar", "point") else {}
    if function is sns.relplot:
        given["style"] = figure.style or figure.hue
        given |= {"markers": True, "dashes": figure.style is not None} if figure.kind == "line" else {}
    order = [name for name in figure.order or () if name in set(shown[figure.x])]  # seaborn fails on empty boxes
    if function is sns.catplot:
        given |= given.pop("facet_kws") | {"order": order or None}
        given |= {"jitter": False} if figure.kind == "strip" else {}
    grid = function(**given)
    _finish(figure, grid)
    return grid


def _stacked(figure: Figure, shown: pd.DataFrame) -> Any:
    """Bars on top of each other, medians over seeds, a panel for each value of `col`."""
    import seaborn as sns

    keys = list(dict.fromkeys(column for column in (figure.x, figure.hue, figure.col) if column))
    medians = shown.groupby(keys, sort=False)[str(figure.y)].median().reset_index()
    names = figure.hue_order or list(dict.fromkeys(medians[figure.hue]))
    order = figure.order or list(dict.fromkeys(medians[figure.x]))
    grid = sns.FacetGrid(medians, col=figure.col, col_order=figure.col_order, col_wrap=figure.col_wrap,
                         height=figure.height, aspect=figure.aspect, sharex=figure.share_x,
                         sharey=figure.share_y)  # fmt: skip
    colours = dict(zip(names, sns.color_palette("colorblind", len(names)))) | figure.colours

    def panel(data: pd.DataFrame, color: Any = None) -> None:
        import matplotlib.pyplot as plt

        wide = data.pivot_table(index=figure.x, columns=figure.hue, values=figure.y, sort=False)
        wide = wide.reindex(index=[name for name in order if name in wide.index], columns=names).fillna(0.0)
        base = 0.0 * wide.sum(axis=1)
        for name in names:
            plt.gca().bar(wide.index, wide[name], bottom=base, color=colours[name], label=name)
            base = base + wide[name]

    grid.map_dataframe(panel)
    grid.add_legend(title="")
    _finish(figure, grid)
    return grid


def _finish(figure: Figure, grid: Any) -> None:
    """Names of axes and panels; the legend below, where it hides nothing."""
    import seaborn as sns

    grid.set_axis_labels(figure.labels.get(figure.x, figure.x), figure.labels.get(figure.y or "", figure.y or "count"))
    grid.set_titles(col_template="{col_name}", row_template="{row_name}")
    for axis in figure.log:
        grid.set(**{f"{axis}scale": "log"})
        for panel in grid.axes.flat:
            _plain_ticks(getattr(panel, f"{axis}axis"))
    if grid.legend is not None:
        several = figure.style and figure.style != figure.hue
        sns.move_legend(grid, "lower right", ncols=4, frameon=False, **({} if several else {"title": None}))
        grid.legend.set_loc("outside lower right")


def _plain_ticks(axis: Any) -> None:
    """Ticks of a log scale as everyday numbers; within two decades also at 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if 0 < high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


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
