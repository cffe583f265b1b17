"""Figures from their specifications, drawn by seaborn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from repro.answers.claims.stats import number
from repro.answers.figures import gantt
from repro.answers.figures.specification import Figure

if TYPE_CHECKING:
    import pandas as pd

GRIDS = {"line": "relplot", "scatter": "relplot", "bar": "catplot", "point": "catplot", "strip": "catplot",
         "box": "catplot", "hist": "displot"}  # fmt: skip


def draw(figure: Figure, shown: pd.DataFrame) -> Any:
    """The matplotlib figure of these rows."""
    import matplotlib

    matplotlib.use("Agg")
    sns = _seaborn()
    # seaborn's own layout of a grid, made twice as it grows, and its drawings for that, would be undone at the end
    layout = patch.object(sns.FacetGrid, "tight_layout", lambda grid, *_, **__: grid)
    with sns.axes_style("whitegrid"), layout, patch("seaborn.axisgrid._draw_figure"):
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
    return grid.figure


def _seaborn() -> Any:
    """seaborn, which works without SciPy: importing that takes longer than drawing a figure, and none here needs it."""
    if "seaborn" not in sys.modules and "scipy" not in sys.modules:
        sys.modules["scipy"] = None  # type: ignore[assignment]  # as where it is not installed
        try:
            import seaborn
        finally:
            del sys.modules["scipy"]
    import seaborn

    return seaborn


def _label(axis: Any, bars: Any, inside: bool) -> None:
    """The value of each bar: on its top, or inside where it is high enough to be read."""
    room = 0.04 * (axis.get_ylim()[1] - axis.get_ylim()[0]) if inside else 0.0
    heights = [float(bar.get_height()) for bar in bars]
    if inside and all(map(float.is_integer, heights)):  # counts, as those of claims
        heights = list(map(int, heights))
    said = [number(height) if height > room else "" for height in heights]
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
