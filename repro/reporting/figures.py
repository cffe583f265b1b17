"""Figures as specifications: which rows of a table, what is on the axes, what tells marks apart; seaborn draws them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import Field

from repro.common import yaml_files
from repro.common.errors import InputError, unknown
from repro.common.fields import Model, Positive, Text, checked
from repro.reporting.filters import Filter, chosen

if TYPE_CHECKING:
    import pandas as pd


class Figure(Model):
    """One figure: `kind` is that of `seaborn.catplot` or `relplot`; `labels`: column -> what an axis calls it."""

    part = "figure"

    title: str
    alt: str  # what somebody who cannot see it is told
    kind: Literal["bar", "point", "strip", "line", "scatter"]
    where: Filter = Field(default_factory=dict)
    x: Text
    y: Text
    hue: Text | None = None
    order: list[Text] | None = None  # of x
    hue_order: list[Text] | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    height: Positive = 3.6  # inches
    aspect: Positive = 2.2


class File(Model):
    """A file of figures, by name."""

    part = "figures"

    figures: dict[str, Figure]


def read(path: Path) -> Mapping[str, Figure]:
    """The figures of a file; InputError in one line for anything else."""
    try:
        return checked(File, yaml_files.read(path), "figures").figures
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not a readable figures file ({' '.join(str(error).split())})") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def rows(figure: Figure, table: pd.DataFrame) -> pd.DataFrame:
    """What a figure shows: the rows and columns that stand in the CSV beside it."""
    axes = [column for column in (figure.x, figure.y, figure.hue) if column]
    if missing := next((column for column in axes if column not in table), None):
        raise unknown("column of a figure", missing, table.columns)
    shown = chosen(table, figure.where)[list(dict.fromkeys(axes))]
    if shown.empty:
        raise InputError(f"figure '{figure.title}': no rows where {figure.where}")
    return shown


def draw(figure: Figure, table: pd.DataFrame) -> Any:
    """The matplotlib figure."""
    import matplotlib

    matplotlib.use("Agg")
    import seaborn as sns

    shown = rows(figure, table)
    names = ("kind", "x", "y", "hue", "hue_order", "height", "aspect")
    common: dict[str, Any] = {"data": shown} | {name: getattr(figure, name) for name in names}
    if figure.hue:
        common["palette"] = "colorblind"
    if figure.kind == "strip":
        common["jitter"] = False
    with sns.axes_style("whitegrid"):
        if figure.kind in ("line", "scatter"):
            grid = sns.relplot(legend=False, **common)
        else:
            grid = sns.catplot(order=figure.order, legend=False, **common)
    grid.set_axis_labels(figure.labels.get(figure.x, ""), figure.labels.get(figure.y, figure.y))
    (axis,) = grid.axes.flat
    for bars in axis.containers:
        axis.bar_label(bars, fmt="{:.3g}", fontsize=8, padding=2)
    axis.set_title(figure.title, loc="left", fontsize=11)
    grid.figure.set_layout_engine("constrained")
    if figure.hue:
        _legend(grid.figure, figure, shown)
    return grid.figure


def _legend(drawn: Any, figure: Figure, shown: pd.DataFrame) -> None:
    """Below the axes, where it hides nothing."""
    import seaborn as sns
    from matplotlib.patches import Patch

    names = figure.hue_order or list(dict.fromkeys(shown[str(figure.hue)]))
    colours = sns.color_palette("colorblind", len(names))
    marks = [Patch(color=colour, label=name) for name, colour in zip(names, colours)]
    drawn.legend(handles=marks, loc="outside lower right", ncols=len(names), frameon=False)
