"""Draw a figure by its specification: panels, axes and one legend; `marks` draws the content of a panel."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from repro.answers.figures import looks
from repro.answers.figures.marks import MARKS, RANGE
from repro.answers.figures.specification import Figure, View

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 8.5  # inches; the same for all figures, so that their type has one size
LARGE, SMALL = 9, 8  # points
LETTERS = 135  # of the small type in one line
ROW_LETTERS = 10  # per inch, in the name of a row of panels
LINES = ("line", "dot", "scatter")  # kinds with lines and markers in the legend; others have boxes
REFERENCE: dict[str, Any] = {"color": "0.4", "linewidth": 0.8, "linestyle": "--"}


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its rows."""

    place: tuple[int, int]  # row, column
    of: tuple[Any, Any]  # values of the figure's `row` and `col`, or None
    view: View
    rows: pd.DataFrame

    @property
    def title(self) -> str:
        """The text above it; in a grid the column's name, above the first row only."""
        row, column = (None if value is None else looks.called(value) for value in self.of)
        if row is None or column is None:
            return self.view.title or column or row or ""
        return column if self.place[0] == 0 else ""

    @property
    def side(self) -> str:
        """In a grid, the row's name, beside its first panel."""
        return looks.called(self.of[0]) if None not in self.of and self.place[1] == 0 else ""


def draw(figure: Figure, shown: pd.DataFrame) -> Any:
    """The matplotlib figure of these rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = figure.model_copy(update={"y": figure.column_y})
    along, shared = (figure.y, figure.share_y) if figure.kind == "dot" else (figure.x, figure.share_x)
    if shared and figure.kind in ("dot", "bar", "stack", "box"):  # equal places of names in all panels
        figure = figure.model_copy(update={"order": figure.order or looks.ordered(shown[along])})
    panels = list(_panels(figure, shown))
    down, across = (1 + max(panel.place[side] for panel in panels) for side in (0, 1))
    drawn, axes = plt.subplots(down, across, figsize=(WIDTH, down * figure.height + 0.8), squeeze=False,
                               sharex=figure.share_x, sharey=figure.share_y, layout="constrained")  # fmt: skip
    hues = looks.ordered(shown[figure.hue]) if figure.hue else [None]
    for axis in axes.flat:
        axis.set_visible(False)
    for panel in panels:
        axis = axes[panel.place]
        axis.set_visible(True)
        _axes(axis, figure)
        MARKS[figure.kind](axis, figure, panel.rows, hues)
        lowest = not any(other.place == (panel.place[0] + 1, panel.place[1]) for other in panels)
        _finish(axis, figure, panel, lowest)
    drawn.suptitle(figure.title, x=0.01, ha="left", fontsize=LARGE + 1)
    _legend(drawn, figure, shown, hues)
    return drawn


def _panels(figure: Figure, shown: pd.DataFrame) -> Iterator[Panel]:
    """A panel for each view, or for each value of `row` and `col` that has rows."""
    if figure.views:
        for place, view in enumerate(figure.views):
            yield Panel((0, place), (None, None), view, shown)
        return
    rows, columns = (looks.ordered(shown[name]) if name else [None] for name in (figure.row, figure.col))
    wrap = figure.wrap or len(columns)
    for (down, row), (across, column) in product(enumerate(rows), enumerate(columns)):
        own = shown if row is None else shown[shown[figure.row] == row]
        own = own if column is None else own[own[figure.col] == column]
        if len(own):
            yield Panel((down + across // wrap, across % wrap), (row, column), View(), own)


def _axes(axis: Any, figure: Figure) -> None:
    """Set a light grid, small type and logarithmic scales."""
    axis.set_axisbelow(True)
    axis.grid(True, color="0.9", linewidth=0.7)
    axis.tick_params(labelsize=SMALL, length=2, color="0.6", labelbottom=True, labelleft=True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color("0.6")
    for name in figure.log:
        getattr(axis, f"set_{name}scale")("log")


def _finish(axis: Any, figure: Figure, panel: Panel, lowest: bool) -> None:
    """Add title, labels, ticks, limits and reference lines."""
    axis.set_title(panel.title, fontsize=LARGE)
    counts = "share" if figure.stat == "percent" else "count"
    for side, name in (("x", figure.x), ("y", counts if figure.kind == "hist" else figure.column_y or "")):
        panels = figure.panel_x if side == "x" else figure.panel_y
        own = next((panels[str(value)] for value in panel.of if str(value) in panels), None)
        outer = (lowest or not figure.share_x) if side == "x" else (panel.place[1] == 0 or not figure.share_y)
        shown = figure.labels.get(name, name) if own is None else own
        text = shown if outer else ""
        if side == "y" and own is None and panel.side not in ("", shown):
            text = f"{textwrap.fill(panel.side, max(12, int(figure.height * ROW_LETTERS)))}\n{text}"
        getattr(axis, f"set_{side}label")(text, fontsize=LARGE)
    if figure.share_x and not lowest:
        axis.tick_params(labelbottom=False)
    if figure.share_y and panel.place[1]:
        axis.tick_params(labelleft=False)
    for side, limits in ({"x": panel.view.x, "y": panel.view.y} | figure.limits).items():
        if limits:
            getattr(axis, f"set_{side}lim")(*limits)
    for side in "xy":
        _ticks(axis, figure, side, panel.rows)
    for side, lines in figure.at.items():
        for name, value in lines.items() if isinstance(lines, dict) else [("", lines)]:
            _reference(axis, side, float(value), name)  # type: ignore[arg-type]  # places are numbers by now
    if figure.diagonal:
        axis.axline((1, 1), (2, 2), **REFERENCE, zorder=1)
    if figure.kind == "dot":
        axis.grid(False, axis="y")


def _reference(axis: Any, side: str, value: float, name: str) -> None:
    """A thin dashed line; a vertical one has its name beside it, a horizontal one in the legend."""
    (axis.axvline if side == "x" else axis.axhline)(value, **REFERENCE, zorder=1)
    if name and side == "x":
        axis.annotate(name, (value, 1), xycoords=("data", "axes fraction"), xytext=(3, -2), textcoords="offset points",
                      ha="left", va="top", fontsize=SMALL, color="0.3")  # fmt: skip


def _ticks(axis: Any, figure: Figure, side: str, rows: pd.DataFrame) -> None:
    """Plain numbers as tick labels; on a logarithmic axis of lines, ticks at their points if these are few."""
    from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, NullFormatter, NullLocator

    own = getattr(axis, f"{side}axis")
    unit = figure.si.get("x" if side == "x" else "y")
    plain = EngFormatter(unit) if unit else FuncFormatter(lambda value, _: f"{value:,.10g}")
    if side in figure.log:
        values = sorted(set(rows[figure.x])) if side == "x" and figure.kind == "line" else []
        own.set_major_locator(FixedLocator(values if 1 < len(values) <= 8 and not unit else _decades(axis, side)))
        own.set_minor_locator(NullLocator())
        own.set_minor_formatter(NullFormatter())
        own.set_major_formatter(plain)
    elif unit:
        own.set_major_formatter(plain)


def _decades(axis: Any, side: str) -> list[float]:
    """Round numbers on a logarithmic axis, at least a quarter of the axis apart, so that labels have room."""
    low, high = (float(end) for end in getattr(axis, f"get_{side}lim")())
    ticks: list[float] = []
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7), tuple(1 + tenth / 10 for tenth in range(90))):
        ticks = [step * 10.0**power for power in range(-15, 16) for step in steps if low <= step * 10.0**power <= high]
        if len(ticks) >= 3:
            break
    spaced = ticks[:1]
    for value in ticks[1:]:
        if math.log(value / spaced[-1]) >= math.log(high / low) / 4:
            spaced.append(value)
    return spaced


def _legend(drawn: Any, figure: Figure, shown: pd.DataFrame, hues: Sequence[Any]) -> None:
    """Add the legend below the panels: colours, then dashes and markers; none if there is one of each."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    styles = looks.ordered(shown[figure.style]) if figure.style and figure.style != figure.hue else []
    handles: list[Any] = []
    if len(hues) > 1 and figure.hue not in ((figure.y,) if figure.kind == "dot" else (figure.x,)):
        for place, hue in enumerate(hues):
            look, name = looks.look(hue, place), looks.called(hue)
            if figure.kind == "dot" and shown.loc[shown[figure.hue] == hue, figure.x].isna().all():  # only ranges
                handles.append(Line2D([], [], **RANGE, color=look.colour, label=name))
            elif figure.kind in LINES:
                dash = look.dash if figure.kind == "line" and not styles else "none" if figure.kind != "line" else "-"
                marker = "" if figure.kind == "line" and (styles or not figure.marked) else look.marker
                handles.append(
                    Line2D([], [], color=look.colour, linestyle=dash, marker=marker, markersize=5, label=name)
                )
            else:
                handles.append(Patch(facecolor=look.colour, hatch=look.hatch, edgecolor="white", label=name))
    for place, style in enumerate(styles):
        look = looks.look(style, place)
        handles.append(Line2D([], [], color="0.3", linestyle=look.dash, marker=look.marker, markersize=5,
                              label=looks.called(style)))  # fmt: skip
    across = figure.at.get("y")
    for name in filter(None, across if isinstance(across, dict) else ()):
        handles.append(Line2D([], [], **REFERENCE, label=name))
    if handles:
        longest = max(len(handle.get_label()) for handle in handles)
        columns = max(1, min(len(handles), LETTERS // (longest + 7)))
        drawn.legend(handles=handles, loc="outside lower left", ncols=columns, frameon=False, fontsize=SMALL)
