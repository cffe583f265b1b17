"""Draw a figure by its specification: panels, axes and one legend; `marks` draws the content of a panel."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from repro.answers.figures import looks
from repro.answers.figures.looks import LETTERS, WIDTH, Look, columns_of_legend, fit_text
from repro.answers.figures.specification import Figure

if TYPE_CHECKING:
    import pandas as pd

ROW_LETTERS = 12  # per inch, in the name of a row of panels
TICK = 0.45  # inches that the label of a tick takes
NAME = 0.4  # of a narrow figure's width, for the names on y
NAMES_ON_Y = ("bar", "dot", "stack")  # kinds of figures that have them
STACK = 4  # panels in one column of a narrow figure; more stand in two
VIEW, PANEL = "view", "panel"  # columns: of a figure's views; of panels in one column
REFERENCE: dict[str, Any] = {"color": "0.4", "linewidth": 0.8, "linestyle": "--"}


def draw_figure(figure: Figure, shown: pd.DataFrame, width: float = WIDTH) -> Any:
    """The matplotlib figure of these rows, so many inches wide; a narrow one has its panels below each other. Its title
    is in the caption."""
    looks.set_theme()
    import seaborn as sns

    from repro.answers.figures.marks import MARKS, Looks

    figure = figure.model_copy(update={"y": figure.column_y})
    if figure.views:
        shown = _viewed(figure, shown)
        figure = figure.model_copy(update={"col": VIEW})
    rows, by_column = _named(figure, shown, width)
    if width < WIDTH:
        figure, rows = _stacked(figure, rows, width)
    styled = Looks(figure, by_column.get(figure.hue, {}), by_column.get(figure.style or figure.hue, {}))
    grid = sns.FacetGrid(rows, row=figure.row, col=figure.col, col_wrap=figure.wrap, height=figure.height,
                         sharex=figure.share_x, sharey=figure.share_y,
                         margin_titles=bool(figure.row and figure.col))  # fmt: skip
    down = math.ceil(len(grid.axes.flat) / (figure.wrap or len(grid.col_names) or 1))
    grid.figure.set_size_inches(width, down * figure.height + 0.5)
    for place, ((row, column, _), panel) in enumerate(grid.facet_data()):
        if len(panel):
            axis = grid.facet_axis(row, column)
            MARKS[figure.kind](axis, figure, _own_names(figure, panel), styled, False if place else "full")
    _finish(grid, figure)
    _legend(grid, figure, rows, styled.hues, styled.styles)
    return grid.figure


def _viewed(figure: Figure, shown: pd.DataFrame) -> pd.DataFrame:
    """The rows once for each view."""
    import pandas as pd

    return pd.concat([shown.assign(**{VIEW: view.title}) for view in figure.views], ignore_index=True)


def _stacked(figure: Figure, rows: pd.DataFrame, width: float) -> tuple[Figure, pd.DataFrame]:
    """The figure and its rows with all panels below each other, named by row and column, with room for names on y."""
    import pandas as pd

    from repro.answers.figures.marks import LINE

    changes: dict[str, Any] = {"row": None, "col": None, "wrap": None}
    changes |= {"share_x": figure.share_x is True, "share_y": figure.share_y is True}
    if panels := [column for column in (figure.row, figure.col) if column]:
        names = rows[panels].astype(str).agg("\n".join, axis=1)
        in_order = names[rows.sort_values(panels).index].unique()
        rows = rows.assign(**{PANEL: pd.Categorical(names, in_order, ordered=True)})
        in_two = len(in_order) > STACK and figure.kind not in (*NAMES_ON_Y, "box") and not figure.panel_y
        changes |= {"col": PANEL, "wrap": 2} if in_two else {"row": PANEL}
    if figure.kind in NAMES_ON_Y:
        on_y = rows[str(figure.y)].cat.categories
        marks = rows[figure.hue].nunique() if figure.kind != "stack" and figure.hue not in (None, figure.y) else 1
        lines = len(on_y) * max(marks, *(name.count("\n") + 1 for name in on_y))
        changes["height"] = max(figure.height if figure.kind == "dot" else 0, lines * LINE + 0.8)
    return figure.model_copy(update=changes), rows


def _named(
    figure: Figure, shown: pd.DataFrame, width: float
) -> tuple[pd.DataFrame, dict[str | None, Mapping[str, Look]]]:
    """The rows with display names in the columns of names, as ordered categories; column -> name -> look."""
    from pandas.api.types import is_numeric_dtype

    along = str(figure.y) if figure.kind in NAMES_ON_Y else figure.x
    on_numbers = figure.kind in ("scatter", "hist", "gantt") or (
        figure.kind == "line" and is_numeric_dtype(shown[along])
    )
    by_column: dict[str | None, Mapping[str, Look]] = {}
    for column in dict.fromkeys((figure.hue, figure.style, figure.col, figure.row, None if on_numbers else along)):
        if column:
            letters = int(figure.height * ROW_LETTERS) if column == figure.row and figure.col else 999
            if width < WIDTH:
                letters = int(LETTERS * width * (NAME if figure.kind in NAMES_ON_Y and column == along else 0.9))
            order = figure.order if column == along else ()
            named, by_column[column] = looks.named_categories(shown[column], order, letters)
            shown = shown.assign(**{column: named})
    return shown.reset_index(drop=True), by_column


def _own_names(figure: Figure, panel: pd.DataFrame) -> pd.DataFrame:
    """The rows of a panel; with an axis of its own it has its own names only."""
    on_x = figure.y is None or panel[figure.x].dtype == "category"
    along, shared = (figure.x, figure.share_x) if on_x else (figure.y, figure.share_y)
    if shared is True or panel[along].dtype != "category":
        return panel
    return panel.assign(**{str(along): panel[along].cat.remove_unused_categories()})


def _finish(grid: Any, figure: Figure) -> None:
    """Add titles, labels, limits, ticks and reference lines."""
    wrapped = "{col_name}" if figure.col else "{row_name}"
    grid.set_titles(wrapped, "{row_name}", "{col_name}") if figure.row and figure.col else grid.set_titles(wrapped)
    counts = "share" if figure.stat == "percent" else "count"
    y = counts if figure.kind == "hist" else str(figure.y)
    width = grid.figure.get_figwidth()
    bottom = list(grid.axes.flat if width < WIDTH and not figure.share_x else grid._bottom_axes)
    grid.set_axis_labels(x := figure.labels.get(figure.x, figure.x), figure.labels.get(y, y))
    for axis in bottom:
        axis.set_xlabel(x)
    if width < WIDTH:  # on a phone the lowest panel is out of sight
        for axis in grid.axes.flat:
            axis.tick_params(axis="x", labelbottom=True)
    for side, panels, outer in (("x", figure.panel_x, bottom), ("y", figure.panel_y, [*grid._left_axes])):
        for value, text in panels.items():
            for names, axis in grid.axes_dict.items():
                named = names if isinstance(names, tuple) else names.split("\n")
                if looks.display_name(value) in (*named, names) and axis in outer:
                    axis.set(**{f"{side}label": text})
    for side in figure.log:
        for axis in grid.axes.flat:
            axis.set(**{f"{side}scale": "log"})
    for view in figure.views:
        grid.axes_dict[view.title].set(**{f"{side}lim": ends for side, ends in (("x", view.x), ("y", view.y)) if ends})
    grid.set(**{f"{side}lim": ends for side, ends in figure.limits.items()})
    for where, lines in figure.at.items():
        for place, (label, at) in enumerate(lines.items() if isinstance(lines, dict) else [("", lines)]):
            for axis in grid.axes.flat:
                _reference(axis, where, float(at), label, place)  # type: ignore[arg-type]  # places are numbers by now
    if figure.kind == "dot" and figure.log and not figure.share_x:
        _equal_spans(list(grid.axes.flat))
    for axis in grid.axes.flat:
        for side in "xy":
            _ticks(axis, figure, side)
        room = _room_across(axis, figure)
        axis.set(title=fit_text(axis.get_title(), room), xlabel=fit_text(axis.get_xlabel(), room))
        axis.set_ylabel(fit_text(axis.get_ylabel(), figure.height))


def _reference(axis: Any, side: str, value: float, name: str, place: int) -> None:
    """A thin dashed line; a vertical one has its name beside it, below those of the lines before it, a horizontal one
    in the legend."""
    (axis.axvline if side == "x" else axis.axhline)(value, **REFERENCE, zorder=1)
    if name and side == "x":
        below = (3, -2 - 12 * place)
        axis.annotate(name, (value, 1), xycoords=("data", "axes fraction"), xytext=below, textcoords="offset points",
                      ha="left", va="top", color="0.3")  # fmt: skip


def finish_ratio_axis(axis: Any, ticks: int) -> None:
    """Let x be a logarithmic axis of ratios: at most so many round ticks, a line at 1, and room on both sides of it."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.axvline(1, **REFERENCE, zorder=1)  # above the grid, whose line it covers
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    low, high = min(low, 0.5), max(high, 2.0)
    axis.set_xlim(low, high)
    axis.xaxis.set_major_locator(FixedLocator(round_numbers(low, high, ticks)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _equal_spans(axes: Any) -> None:
    """Let an inch be the same ratio on all logarithmic axes."""
    ends = [axis.get_xlim() for axis in axes]
    widest = max(high / low for low, high in ends)
    for axis, (low, high) in zip(axes, ends, strict=True):
        more = math.sqrt(widest / (high / low))
        axis.set_xlim(low / more, high * more)


def _room_across(axis: Any, figure: Figure) -> float:
    """The inches of an axis along x."""
    width = axis.figure.get_figwidth()
    names = NAME * width if figure.kind in NAMES_ON_Y and width < WIDTH else 0
    return (width - names) / axis.get_gridspec().ncols - 0.5


def _ticks(axis: Any, figure: Figure, side: str) -> None:
    """Plain numbers as tick labels; on a logarithmic axis as many round ones as there is room for."""
    from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, NullLocator

    dimension = getattr(axis, f"{side}axis")
    unit = figure.si.get("x" if side == "x" else "y")
    plain = EngFormatter(unit) if unit else FuncFormatter(lambda value, _: f"{value:,.10g}")
    if side in figure.log:
        room = _room_across(axis, figure) if side == "x" else figure.height - 0.5
        low, high = getattr(axis, f"get_{side}lim")()
        lines = [line for line in axis.lines if line.get_transform() == axis.transData]  # without reference lines
        values = {float(value) for line in lines for value in line.get_xdata()} if figure.kind == "line" else set()
        at_values = side == "x" and not unit and 1 < len(values) <= 8
        ticks = spaced_values(values, low, high, room) if at_values else round_numbers(low, high, int(room / TICK))
        dimension.set_major_locator(FixedLocator(ticks))
        dimension.set_minor_locator(NullLocator())
        dimension.set_major_formatter(plain)
    elif unit:
        dimension.set_major_formatter(plain)


def spaced_values(values: Collection[float], low: float, high: float, room: float) -> list[float]:
    """The values whose ticks on a logarithmic axis of `room` inches do not touch, from the largest down."""
    ticks: list[float] = []
    for value in sorted(values, reverse=True):
        if not ticks or math.log(ticks[-1] / value) / math.log(high / low) * room >= TICK / 2:
            ticks.append(value)
    return ticks


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """At most `most` round numbers for the ticks of a logarithmic axis, about equally far apart, two at least."""
    from matplotlib.ticker import MaxNLocator

    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [[10.0**power for power in decades if power % step == 0] for step in (6, 3, 2, 1)]
    every += [sorted(n * 10.0**power for power in decades for n in digits) for digits in ((1, 3), (1, 2, 5))]
    if high / low < 4:  # nearly linear
        every.append([float(tick) for tick in MaxNLocator(max(2, most - 1)).tick_values(low, high)])
    within = [[tick for tick in ticks if low <= tick <= high] for ticks in every]
    return max((ticks for ticks in within if len(ticks) <= max(most, 2)), key=len)


def _legend(
    grid: Any, figure: Figure, rows: pd.DataFrame, hues: Mapping[str, Look], styles: Mapping[str, Look]
) -> None:
    """Move the first panel's legend below all: colours, then dashes and markers, without those of one value."""
    from matplotlib.lines import Line2D

    from repro.answers.figures.marks import MARKER, RANGE

    shown: dict[str, Any] = {}
    first = grid.axes.flat[0]
    if first.legend_:
        shown = dict(zip((text.get_text() for text in first.legend_.texts), first.legend_.legend_handles, strict=True))
        first.legend_.remove()
    along = figure.y if figure.kind in NAMES_ON_Y else figure.x
    wanted = list(hues) if len(hues) > 1 and figure.hue != along else []
    wanted += [name for name in styles if figure.style not in (None, figure.hue)]
    handles = {name: shown[name] for name in wanted if name in shown}
    for name in handles:
        if figure.kind == "line" and name in styles and styles[name].dash == "none":
            handles[name].set_linestyle("none")
        if figure.kind == "dot" and rows.loc[rows[figure.hue] == name, figure.x].isna().all():  # only ranges
            handles[name] = Line2D([], [], color=hues[name].colour, **RANGE)
        if figure.kind == "hist" and figure.interval and rows.loc[rows[figure.hue] == name, "low"].notna().all():
            look = hues[name]  # no histogram, a mark with a range
            handles[name] = Line2D([], [], color=look.colour, marker=look.marker, markersize=MARKER)
    across = figure.at.get("y")
    handles |= {name: Line2D([], [], **REFERENCE) for name in (across if isinstance(across, dict) else ()) if name}
    if handles:
        width = grid.figure.get_figwidth()
        columns = columns_of_legend(handles, width)
        names = [fit_text(name.replace("\n", " "), 0.85 * width) for name in handles]  # wrapped for an axis before
        grid.figure.legend(handles.values(), names, loc="outside lower left", ncols=columns, frameon=False)
