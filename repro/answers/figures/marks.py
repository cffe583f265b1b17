"""The functions that draw a panel, one for each kind of figure: (axis, figure, its rows, the values of hue in order).

Bars, dots and lines are medians over the rows at the same place, with their range, or with the range from `low` to
`high` if the figure has `interval`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from repro.answers.claims.stats import number
from repro.answers.figures import looks
from repro.answers.figures.looks import Look

if TYPE_CHECKING:
    from repro.answers.figures.specification import Figure

SMALL = 8  # points
LETTER = 0.066  # inches, the mean width of a letter
RANGE: dict[str, Any] = {"linewidth": 5, "alpha": 0.45, "solid_capstyle": "butt"}  # of a range without a point
BOX = 0.84  # height of a box of a Gantt chart, whose rows are 1 apart
DIGIT = 0.012  # width of a digit in it, as a share of the axis
INTERVAL = {"linewidth": 1.4, "capsize": 2, "capthick": 1.0}


def summary(figure: Figure, rows: pd.DataFrame, by: str, column: str) -> pd.DataFrame:
    """The columns value, low and high, by the values of `by`."""
    groups = rows.groupby(by, sort=False)
    of = groups[column].agg(["median", "min", "max"]).set_axis(["value", "low", "high"], axis=1)
    if figure.interval and "low" in rows:
        own = groups[["low", "high"]].median()
        of[["low", "high"]] = own.fillna(of[["low", "high"]])
    return of.astype(float)


def split(figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> Iterator[tuple[int, Look, pd.DataFrame]]:
    """(place in the legend, look, rows) of each hue in the panel."""
    for place, hue in enumerate(hues):
        own = rows if hue is None else rows[rows[figure.hue] == hue]
        if len(own):
            yield place, looks.look(figure.kind if hue is None else hue, place), own


def error(of: pd.DataFrame) -> Any:
    """Lengths of the error bars below and above."""
    return np.maximum([of["value"] - of["low"], of["high"] - of["value"]], 0)


def categories(figure: Figure, rows: pd.DataFrame, column: str) -> list[Any]:
    """The names on an axis, in the order of the figure or the palette."""
    names = looks.ordered(rows[column])
    shared = figure.share_y if figure.kind == "dot" else figure.share_x
    return [name for name in figure.order if shared or name in names] if figure.order else names


def bar(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    places, width = categories(figure, rows, figure.x), 0.84 / len(hues)
    for place, look, own in split(figure, rows, hues):
        of = summary(figure, own, figure.x, str(figure.y)).reindex(places)
        at = np.arange(len(places)) + (place - (len(hues) - 1) / 2) * width
        spread = error(of) if (of["high"] > of["low"]).any() else None
        drawn = axis.bar(at, of["value"], 0.92 * width, color=look.colour, hatch=look.hatch, yerr=spread,
                         error_kw={"ecolor": "0.25", **INTERVAL})  # fmt: skip
        if figure.values:
            axis.bar_label(drawn, [number(value, 2) if value == value else "" for value in of["value"]],
                           fontsize=SMALL, padding=1)  # fmt: skip
    names_below(axis, places)


def stack(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    places = categories(figure, rows, figure.x)
    base = np.zeros(len(places))
    for _, look, own in split(figure, rows, hues):
        height = own.groupby(figure.x)[str(figure.y)].median().reindex(places).fillna(0.0).to_numpy(dtype=float)
        axis.bar(range(len(places)), height, 0.75, bottom=base, color=look.colour, hatch=look.hatch, edgecolor="none")
        base = base + height
    if figure.text:
        for place, text in enumerate(rows.groupby(figure.x)[figure.text].first().reindex(places)):
            axis.annotate("" if pd.isna(text) else str(text), (place, base[place]), xytext=(0, 2), ha="center",
                          textcoords="offset points", fontsize=SMALL)  # fmt: skip
        axis.margins(y=0.2)
    names_below(axis, places)


def names_below(axis: Any, places: Sequence[Any]) -> None:
    """Label the x axis with names, wrapped to fit, or tilted if a word is too long."""
    inches = axis.figure.get_figwidth() * axis.get_position().width / max(1, len(places))
    letters = max(5, int(1.1 * inches / LETTER))  # the final layout has more room
    names = ["\n".join(textwrap.wrap(looks.called(name), letters, break_long_words=False)) for name in places]
    tilted = any(len(line) > letters for name in names for line in name.split("\n"))
    axis.set_xticks(range(len(places)), [looks.called(name) for name in places] if tilted else names)
    if tilted:
        axis.tick_params(axis="x", rotation=45)
        for label in axis.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axis.grid(False, axis="x")


def dot(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    """Names on y, numbers on x; the hues of one name are drawn a little apart."""
    places = categories(figure, rows, str(figure.y))
    apart = 0.0 if figure.hue in (None, figure.y) else 0.7 / len(hues)
    for place, look, own in split(figure, rows, hues):
        of = summary(figure, own, str(figure.y), figure.x).reindex(places)
        at = np.arange(len(places)) + (place - (len(hues) - 1) / 2) * apart
        if (figure.interval or not (of["low"] < of["high"]).any()) and len(of):
            axis.errorbar(of["value"], at, xerr=error(of), fmt=look.marker, color=look.colour, markersize=5,
                          elinewidth=1.4, capsize=0)  # fmt: skip
        else:  # a marker for each row
            each = own[str(figure.y)].map(dict(zip(places, at, strict=True)))
            axis.plot(own[figure.x], each, look.marker, color=look.colour, markersize=4, alpha=0.8)
        for y, (value, low, high) in zip(at, of[["value", "low", "high"]].to_numpy(), strict=True):
            if value != value and low == low:  # a range without a point
                axis.plot([low, high], [y, y], color=look.colour, **RANGE)
    for line in range(1, len(places)):
        axis.axhline(line - 0.5, color="0.93", linewidth=0.7, zorder=0)
    axis.set_yticks(range(len(places)), [looks.called(name) for name in places])
    axis.set_ylim(len(places) - 0.5, -0.5)


def line(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    for _, look, own in split(figure, rows, hues):
        styles = looks.ordered(own[figure.style]) if figure.style else [None]
        for place, style in enumerate(styles):
            drawn = look if style is None or figure.style == figure.hue else looks.look(style, place)
            group = own if style is None else own[own[figure.style] == style]
            of = summary(figure, group, figure.x, str(figure.y))
            of = of if isinstance(of.index[0], str) else of.sort_index()
            marker = drawn.marker if figure.marked or drawn.dash == "none" else ""
            axis.plot(of.index, of["value"], color=look.colour, linestyle=drawn.dash, marker=marker, markersize=3.5,
                      linewidth=1.3)  # fmt: skip
            if (of["high"] > of["low"]).any():
                axis.fill_between(of.index, of["low"], of["high"], color=look.colour, alpha=0.15, linewidth=0)


def scatter(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    for _, look, own in split(figure, rows, hues):
        axis.plot(own[figure.x], own[str(figure.y)], look.marker, color=look.colour, markersize=3.5, alpha=0.7)


def hist(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    """Shares or counts; rows with `low` and `high` are drawn above them, as a range with a marker at x."""
    spread = figure.interval and "low" in rows
    known = rows[rows["low"].isna()] if spread else rows
    bins = np.histogram_bin_edges(known[figure.x].astype(float), bins=40)
    for _, look, own in split(figure, known, hues):
        values = own[figure.x].astype(float)
        weights = np.full(len(values), 100 / len(values) if figure.stat == "percent" else 1.0)
        axis.hist(values, bins, weights=weights, histtype="stepfilled", facecolor=(look.colour, 0.3),
                  edgecolor=look.colour, linewidth=1.2)  # fmt: skip
    if not spread:
        return
    top = axis.get_ylim()[1]
    for place, look, own in split(figure, rows[rows["low"].notna()], hues):
        at = top * (1.06 + 0.09 * place)
        for x, low, high in own[[figure.x, "low", "high"]].to_numpy(dtype=float):
            axis.errorbar([x], [at], xerr=[[x - low], [high - x]], fmt=look.marker, color=look.colour, markersize=4,
                          elinewidth=1.6, capsize=3)  # fmt: skip


def box(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    places = categories(figure, rows, figure.x)
    values = [rows.loc[rows[figure.x] == name, str(figure.y)].to_numpy(dtype=float) for name in places]
    axis.boxplot(values, positions=range(len(places)), widths=0.6, flierprops={"markersize": 2.5, "alpha": 0.5},
                 medianprops={"color": "black"})  # fmt: skip
    names_below(axis, places)


def gantt(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    """Draw boxes from `x` to `end` in the row `y`, coloured by `hue`, with `text` if it fits."""
    column = str(figure.y)
    lines = list(dict.fromkeys(rows[column]))
    end = float(rows[figure.end].max())
    for box in rows.to_dict("records"):
        place, start, width = lines.index(box[column]), box[figure.x], box[figure.end] - box[figure.x]
        look = looks.look(box[figure.hue])
        axis.broken_barh([(start, width)], (place - BOX / 2, BOX), facecolor=look.colour, hatch=look.hatch,
                         edgecolor="white", linewidth=0.5)  # fmt: skip
        text = "" if not figure.text or pd.isna(box[figure.text]) else f"{box[figure.text]:g}"
        if text and width > DIGIT * (len(text) + 0.5) * end:
            axis.text(start + width / 2, place, text, ha="center", va="center", fontsize=SMALL)
    axis.set_xlim(0, end)
    axis.set_yticks(range(len(lines)), [looks.called(line) for line in lines])
    axis.set_ylim(len(lines) - 0.45, -0.55)
    axis.grid(False, axis="y")
    axis.spines["left"].set_visible(False)


Draw = Callable[[Any, "Figure", pd.DataFrame, Sequence[Any]], None]
MARKS: dict[str, Draw] = {made.__name__: made for made in (bar, stack, dot, line, scatter, hist, box, gantt)}
