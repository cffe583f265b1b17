"""The functions that draw a panel with seaborn, one for each kind of figure.

Bars, dots and lines are medians over the rows at the same place, with their range, or with the range from `low` to
`high` if the figure has `interval`. Columns of names are categoricals of display names, in the order in which they are
drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import seaborn as sns

from repro.answers.claims.stats import format_number
from repro.answers.figures.looks import DASHES, LETTERS, SPARE, WIDTH, Look, display_name

if TYPE_CHECKING:
    from repro.answers.figures.specification import Figure

LINE = 0.17  # inches, of a line of a name
LEFT = 0.85  # inches beside an axis, for its ticks and label
RANGE: dict[str, Any] = {"linewidth": 4, "solid_capstyle": "butt"}  # of a range without a point
MARKER = 5  # points
EDGE: dict[str, Any] = {"linewidth": 0.4, "edgecolor": "white"}  # sets apart what lies close together
BOX = 0.84  # height of a box of a Gantt chart, whose rows are 1 apart
DIGIT = 0.012  # width of a digit in it, as a share of the axis of a wide figure
NUMBER = 8.0  # points, of a number in a box
BEHIND: dict[str, Any] = {"textcoords": "offset points", "ha": "left", "va": "center", "size": "small"}


@dataclass(frozen=True)
class Looks:
    """The looks of a figure's hues and styles by display name; both are the same if the figure has no style."""

    figure: Figure
    hues: Mapping[str, Look]
    styles: Mapping[str, Look]

    @property
    def by_hue(self) -> dict[str, Any]:
        """Keywords of seaborn's functions for the colours."""
        if not self.figure.hue:
            return {"color": SPARE[0]}
        return {"hue": self.figure.hue, "palette": {name: look.colour for name, look in self.hues.items()}}

    @property
    def by_style(self) -> dict[str, Any]:
        """Keywords of `lineplot` and `scatterplot` for the colours and markers."""
        markers = {name: look.marker for name, look in self.styles.items()}
        return self.by_hue | ({"style": self.figure.style or self.figure.hue, "markers": markers} if markers else {})


def points_and_ends(figure: Figure, rows: pd.DataFrame, by: str, column: str) -> pd.DataFrame:
    """Three rows for each value of `by` and hue: its point, and the ends of its interval, in this order.

    seaborn computes intervals from observations; ours are computed already, see `POINT` and `ENDS`.
    """
    groups = rows.groupby(list(dict.fromkeys(filter(None, (by, figure.hue)))), observed=True, sort=False)
    statistics = groups[column].agg(["median", "min", "max"]).astype(float)
    if figure.interval and "low" in rows:
        statistics[["min", "max"]] = (
            groups[["low", "high"]].median().fillna(statistics[["min", "max"]].set_axis(["low", "high"], axis=1))
        )
    return statistics.melt(ignore_index=False, value_name=column).reset_index()


POINT: Callable[[pd.Series], float] = lambda values: values.iloc[0]  # noqa: E731 - as seaborn takes an estimator


def ENDS(values: pd.Series) -> tuple[float, float]:
    """The interval of `points_and_ends`."""
    _, low, high = values
    return (low, high) if low < high else (np.nan, np.nan)


ESTIMATE: dict[str, Any] = {"estimator": POINT, "errorbar": ENDS}


def draw_bar(axis: Any, figure: Figure, rows: pd.DataFrame, looks: Looks, legend: Any) -> None:
    """Names on y, a bar a hue, with its number behind it."""
    each = points_and_ends(figure, rows, str(figure.y), figure.x)
    sns.barplot(each, x=figure.x, y=figure.y, orient="y", **ESTIMATE, **looks.by_hue,
                err_kws={"color": "0.25", "linewidth": 1.2}, capsize=0.3, gap=0.08, saturation=1, width=0.84,
                legend=legend, ax=axis)  # fmt: skip
    drawn = [line for line in axis.lines if not np.isnan(line.get_xdata()).all()]
    ends = {round(float(np.nanmean(line.get_ydata())), 6): np.nanmax(line.get_xdata()) for line in drawn}
    axis.margins(x=0.15 if figure.values else 0.05)
    for box in axis.patches if figure.values else ():
        if box.get_width() > 0:
            middle = box.get_y() + box.get_height() / 2
            right = max(box.get_width(), ends.get(round(middle, 6), 0))
            axis.annotate(format_number(box.get_width(), 2), (right, middle), xytext=(3, 0), **BEHIND)
    _list_names(axis, rows[str(figure.y)].cat.categories)


def draw_stack(axis: Any, figure: Figure, rows: pd.DataFrame, looks: Looks, legend: Any) -> None:
    """Names on y, a bar each, with its text behind it."""
    along = str(figure.y)
    medians = rows.groupby([along, str(figure.hue)], observed=True)[figure.x].median().reset_index()
    sns.histplot(medians, y=along, weights=figure.x, multiple="stack", discrete=True, shrink=0.75, alpha=1, **EDGE,
                 hue_order=[*looks.hues][::-1], **looks.by_hue, legend=bool(legend), ax=axis)  # fmt: skip
    if figure.text:
        tops = medians.groupby(along, observed=False)[figure.x].sum()
        texts = list(rows.groupby(along, observed=False).first()[figure.text].fillna(""))
        for place, text in enumerate(texts):
            axis.annotate(text, (tops.iloc[place], place), xytext=(2, 0), **BEHIND)
        room = (axis.figure.get_figwidth() - LEFT) / axis.get_gridspec().ncols - LEFT
        longest = max(map(len, texts)) / LETTERS
        axis.margins(x=longest / max(room - longest, 0.3 * room))
    _list_names(axis, rows[along].cat.categories)


def _list_names(axis: Any, names: pd.Index) -> None:
    """Write the names left of an axis, the first on top; of axes that share them left of the first."""
    axis.set_yticks(range(len(names)), names)
    if not axis.get_subplotspec().is_first_col() and len(axis.get_shared_y_axes().get_siblings(axis)) > 1:
        axis.tick_params(labelleft=False)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(False, axis="y")


def draw_dot(axis: Any, figure: Figure, rows: pd.DataFrame, looks: Looks, legend: Any) -> None:
    """Names on y, numbers on x; the hues of one name are drawn a little apart."""
    names, one_a_name = rows[str(figure.y)].cat.categories, figure.hue in (None, figure.y)
    if one_a_name and not figure.interval:  # a marker for each row
        sns.scatterplot(rows, x=figure.x, y=figure.y, **looks.by_style, s=MARKER**2, **EDGE, legend=legend,
                        ax=axis)  # fmt: skip
    else:
        each = points_and_ends(figure, rows, str(figure.y), figure.x)
        apart = False if one_a_name or len(looks.hues) < 2 else 0.7 * (1 - 1 / len(looks.hues))
        common = {
            "x": figure.x,
            "y": figure.y,
            **ESTIMATE,
            **looks.by_hue,
            "dodge": apart,
            "linestyles": "none",
            "ax": axis,
        }
        whole = each.groupby([column for column in (figure.y, figure.hue) if column], observed=True)[figure.x]
        ranges = each[whole.transform("count") == 2]  # without a point
        points = each.drop(ranges.index)
        markers = [look.marker for look in looks.hues.values()] or "o"
        sns.pointplot(points, **common, markers=markers, markersize=MARKER, err_kws={"linewidth": 1.4}, legend=legend)
        if len(ranges):
            middles = ranges.assign(**{figure.x: ranges[figure.x].fillna(whole.transform("mean"))})
            sns.pointplot(middles, **common, markers="", err_kws=RANGE, legend=False)
    for place in range(1, len(names)):
        axis.axhline(place - 0.5, color="0.93", linewidth=0.7, zorder=0)
    _list_names(axis, names)


def draw_line(axis: Any, figure: Figure, rows: pd.DataFrame, looks: Looks, legend: Any) -> None:
    """Lines with the range as a band; what the palette gives no dash as markers, with the range as a bar."""
    common = {
        "x": figure.x,
        "y": figure.y,
        "estimator": "median",
        "errorbar": ("pi", 100),
        "ax": axis,
        **looks.by_style,
    }
    common |= {"markersize": 4, "markeredgewidth": 0}
    if not figure.marked and looks.styles:
        common["markers"] = False
    if figure.hue:
        common |= {"size": figure.hue, "sizes": {name: look.width for name, look in looks.hues.items()}}
    dashed = (
        rows[figure.style or figure.hue].map({name: look.dash for name, look in looks.styles.items()}) != "none"
        if looks.styles
        else pd.Series(True, rows.index)
    )
    dashes = {"dashes": {name: DASHES[look.dash] for name, look in looks.styles.items()}} if looks.styles else {}
    band = {"err_kws": {"alpha": 0.15, "linewidth": 0}, "legend": legend}
    sns.lineplot(rows[dashed], **common, **dashes, **band)
    if not dashed.all():
        bars = {"err_style": "bars", "err_kws": {"elinewidth": 1.4}, "legend": False}
        sns.lineplot(rows[~dashed], **common, dashes=False, linestyle="", **bars)


def draw_scatter(axis: Any, figure: Figure, rows: pd.DataFrame, looks: Looks, legend: Any) -> None:
    sns.scatterplot(rows, x=figure.x, y=figure.y, **looks.by_style, s=MARKER**2, **EDGE, legend=legend,
                    ax=axis)  # fmt: skip


def draw_hist(axis: Any, figure: Figure, rows: pd.DataFrame, looks: Looks, legend: Any) -> None:
    """Shares or counts; rows with `low` and `high` are drawn above them, as a range with a marker at x."""
    spread = rows[rows["low"].notna()] if figure.interval and "low" in rows else rows[:0]
    known = rows.drop(spread.index).astype({figure.x: float})
    sns.histplot(known, x=figure.x, **looks.by_hue, bins=40, stat=figure.stat, common_norm=False, element="step",
                 alpha=0.3, legend=bool(legend), ax=axis)  # fmt: skip
    top = axis.get_ylim()[1]
    for place, (name, look) in enumerate(looks.hues.items() if len(spread) else ()):
        for x, low, high in spread.loc[spread[figure.hue] == name, [figure.x, "low", "high"]].to_numpy(dtype=float):
            axis.errorbar([x], [top * (1.06 + 0.09 * place)], xerr=[[x - low], [high - x]], fmt=look.marker, capsize=3,
                          color=look.colour, markersize=MARKER)  # fmt: skip


def draw_box(axis: Any, figure: Figure, rows: pd.DataFrame, looks: Looks, legend: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "vert: bool")  # seaborn 0.13 with matplotlib 3.11
        sns.boxplot(rows, x=figure.x, y=figure.y, color="0.25", fill=False, width=0.6, fliersize=2, linewidth=1,
                    ax=axis)  # fmt: skip


def draw_gantt(axis: Any, figure: Figure, rows: pd.DataFrame, looks: Looks, legend: Any) -> None:
    """Boxes from `x` to `end` in the row `y`, coloured by `hue`, with `text` if it fits; seaborn has no such plot."""
    lines = list(rows[str(figure.y)].unique())
    places, widths = rows[str(figure.y)].map(lines.index), rows[figure.end] - rows[figure.x]
    for name, look in looks.hues.items():
        chosen = rows[figure.hue] == name
        axis.barh(places[chosen], widths[chosen], BOX, rows.loc[chosen, figure.x], color=look.colour, edgecolor="white",
                  linewidth=0.5, label=name)  # fmt: skip
    across = axis.figure.get_figwidth()
    end = max(panel.dataLim.x1 for panel in axis.get_shared_x_axes().get_siblings(axis))  # so far
    digit, beside = DIGIT * WIDTH / across, 0.5 if across >= WIDTH else 0.05
    for text, place, width, start in zip(rows[figure.text] if figure.text else (), places, widths, rows[figure.x]):
        if not pd.isna(text) and width > digit * (len(f"{text:g}") + beside) * end:
            axis.text(start + width / 2, place, f"{text:g}", ha="center", va="center", size=NUMBER)
    if legend:
        axis.legend()
    axis.set_xlim(0, end)
    axis.set_yticks(range(len(lines)), map(display_name, lines))
    axis.set_ylim(len(lines) - 0.45, -0.55)
    axis.grid(False, axis="y")


Draw = Callable[[Any, "Figure", pd.DataFrame, Looks, Any], None]
MARKS: dict[str, Draw] = {
    "bar": draw_bar, "stack": draw_stack, "dot": draw_dot, "line": draw_line,
    "scatter": draw_scatter, "hist": draw_hist, "box": draw_box, "gantt": draw_gantt,
}  # fmt: skip
