"""The forest plot of headline claims: a row a claim with ours over the paper's number on one axis, both numbers, the
verdict and the kind of number."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from repro.answers.claims.stats import DASH, middle_of_range
from repro.answers.figures import looks
from repro.answers.pages.cells import fit_cell
from repro.answers.pages.wording import NUMBERS

if TYPE_CHECKING:
    import pandas as pd

    from repro.answers.pages.files import Files
    from repro.answers.pages.markdown import Markdown

PAPER = "paper's range"  # its name in the palette
ROW = 16 / 130  # inches: 16 pixels of a picture
SIZE = 6.7  # points
TITLE = 12.1  # letters of the title in an inch
COLUMNS = {"paper": 6, "ours (90 %)": 102, "verdict": 237, "kind": 299}  # points right of the axis
LETTERS = {"paper": 24, "ours (90 %)": 36}  # the most in a column
REACH = 0.05, 10.0  # the axis ends here, or at the farthest mark
HEAD = 1.4  # so many times as far where arrows go beyond it: room for their heads
CARD, CARD_SIZE = 0.3, 8.0  # on a phone: inches of a row, points


def forest_picture(files: Files, rows: pd.DataFrame, title: str) -> Markdown:
    """The picture on a page, as Markdown. rows: as for `draw_forest`; title: a sentence on the result."""
    counts = ", ".join(f"{count} {heading}" for heading, count in rows["heading"].value_counts().items())
    alt = f"A line for each headline claim with our number over the paper's, and the verdict: {counts}."
    caption = (
        "Marks: ours over the paper's number, the middle of its range (grey box) or, where it prints words, the bound "
        "that counts for them. Lines: nine in ten [draws](index.md#legend), or all seeds, widened by the test set's "
        "error; an arrow goes beyond the axis. No mark: no ratio above 0, or none to a bound. A short bar stands at no "
        "effect."
    )
    return files.picture(partial(draw_forest, rows, title), title, "headlines", fit_cell(alt), caption, rows)


def draw_forest(rows: pd.DataFrame, title: str, width: float = looks.WIDTH) -> Any:
    """The matplotlib figure, so many inches wide; a narrow one has each claim's name above its line, and the verdict
    alone beside it. rows: as of `ClaimTables.headline_rows`; with a column `paper` in groups."""
    looks.set_theme()
    import matplotlib.pyplot as plt
    import seaborn as sns

    groups = rows["paper"] if "paper" in rows else rows["claim"].map(lambda _: "")
    starts = groups.ne(groups.shift()) & groups.ne("")  # a line with the name of the group stands before these rows
    shown = _over_the_papers(rows).assign(place=[n + heads for n, heads in enumerate(starts.cumsum())])
    heads = dict(zip(shown["place"][starts] - 1, groups[starts], strict=True))
    lines = max(len(shown) + len(heads), 2)  # with one the names of the columns, a line above, would need all room
    wide = width >= looks.WIDTH
    title = looks.fit_text(title, width - 0.2, TITLE)
    height = (ROW if wide else CARD) * (lines + 1) + 0.5 + 0.2 * (title.count("\n") + 1)
    figure, axis = plt.subplots(figsize=(width, height), layout="constrained")
    colours = _draw_marks(axis, shown)
    size = SIZE if wide else CARD_SIZE
    axis.set(ylim=(lines - 0.4, -0.6), ylabel="")
    axis.set_xlabel("ours over the paper's number,\nor over the bound that counts", fontsize=size)
    axis.tick_params(axis="x", labelsize=size)
    (_write_columns if wide else _write_names)(axis, shown, heads, colours)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    sns.despine(figure, left=True)
    return figure


def _draw_marks(axis: Any, shown: pd.DataFrame) -> dict[str, str]:
    """Boxes, ranges and marks on a logarithmic axis; returns heading -> colour."""
    import numpy as np
    import seaborn as sns

    from repro.answers.figures.drawing import finish_ratio_axis

    order = looks.palette_order(shown["heading"])
    looks_of = {heading: looks.look_of(heading, place) for place, heading in enumerate(order)}
    colours, grey = {heading: look.colour or "" for heading, look in looks_of.items()}, looks.look_of(PAPER).colour
    marks = shown[["ours", "paper_low", "paper_high"]].to_numpy(dtype=float)
    least, most = np.fmin.reduce(marks, None, initial=REACH[0]), np.fmax.reduce(marks, None, initial=REACH[1])
    beyond = {"low": shown["low"] < least, "high": shown["high"] > most}
    inside = {side: shown[side].mask(out, shown["ours"]) for side, out in beyond.items()}
    lines = shown.assign(**inside, colour=shown["heading"].map(colours))
    axis.barh(shown["place"], shown["paper_high"] - shown["paper_low"], 0.5, shown["paper_low"], color="0.9",
              edgecolor=grey, linewidth=0.7)  # fmt: skip
    axis.hlines(lines["place"], lines["low"], lines["high"], colors=[*lines["colour"]], linewidth=1.4)
    axis.scatter(
        shown["none"].where(shown["none"] >= least), shown["place"], marker="|", s=36, color="0.2", linewidth=1
    )
    markers = {heading: look.marker for heading, look in looks_of.items()}
    sns.scatterplot(shown, x="ours", y="place", hue="heading", palette=colours, style="heading", markers=markers,
                    s=22, linewidth=0, legend=False, zorder=3, ax=axis)  # fmt: skip
    finish_ratio_axis(axis, ticks=5)
    low, high = axis.get_xlim()
    axis.set_xlim(low / HEAD ** beyond["low"].any(), high * HEAD ** beyond["high"].any())
    for end, out in zip(axis.get_xlim(), beyond.values(), strict=True):
        for row in lines[out].to_dict("records"):
            arrow = {"arrowstyle": "->", "color": row["colour"], "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
            axis.annotate("", (end, row["place"]), (row["ours"], row["place"]), arrowprops=arrow)
    axis.grid(False, axis="y")
    return colours


def _write_columns(axis: Any, shown: pd.DataFrame, heads: Mapping[int, str], colours: Mapping[str, str]) -> None:
    """The names of claims and groups left of the axis, and the columns right of it."""
    axis.set_yticks([*shown["place"], *heads], [*shown["short"], *heads.values()], fontsize=SIZE)
    for label in axis.get_yticklabels()[len(shown) :]:
        label.set_fontweight("bold")
    beside = _beside(axis, SIZE)
    for name, right in COLUMNS.items():
        axis.annotate(name, (1, -1.1), xytext=(right, 0), fontweight="bold", color="0.2", **beside)
    for row in shown.to_dict("records"):
        colour = colours[row["heading"]]
        kind = "" if row["number"] == DASH else row["kind"] + ", yours" * row["own"]
        texts = (row["printed"].partition(" (")[0], row["number"], row["heading"], kind)
        for (name, right), text, ink in zip(COLUMNS.items(), texts, ("0.2", "0.2", colour, "0.2"), strict=True):
            text = textwrap.shorten(text, LETTERS.get(name, 40), placeholder=" ...")
            axis.annotate(text, (1, row["place"]), xytext=(right, 0), color=ink, **beside)


def _write_names(axis: Any, shown: pd.DataFrame, heads: Mapping[int, str], colours: Mapping[str, str]) -> None:
    """The names of claims and groups above their lines, and the verdict of each right of the axis."""
    axis.set_yticks([])
    axis.tick_params(axis="x", labeltop=True)
    beside = _beside(axis, CARD_SIZE)
    for place, name in heads.items():
        axis.annotate(name, (0, place), xytext=(0, 0), fontweight="bold", **beside)
    for row in shown.to_dict("records"):
        over_lines = {"facecolor": "white", "linewidth": 0, "pad": 0.8}
        axis.annotate(row["short"], (0, row["place"] - 0.45), xytext=(0, 0), bbox=over_lines, **beside)
        verdict = row["heading"] + ", yours" * row["own"]
        axis.annotate(verdict, (1, row["place"]), xytext=(6, 0), color=colours[row["heading"]], **beside)


def _beside(axis: Any, size: float) -> dict[str, Any]:
    """How texts are placed: x as a share of the axis, plus points; y by line."""
    return {"xycoords": axis.get_yaxis_transform(), "textcoords": "offset points", "va": "center", "fontsize": size,
            "annotation_clip": False}  # fmt: skip


def _over_the_papers(rows: pd.DataFrame) -> pd.DataFrame:
    """The numbers over the middle of the paper's range, or over its one bound; `none`: where a ratio has no effect."""
    middle = rows.apply(lambda row: middle_of_range(row["paper_low"], row["paper_high"]), axis=1)
    over = rows[[*NUMBERS]].div(middle, axis=0)
    return rows.assign(**{name: over[name] for name in NUMBERS}, none=(1 / middle).where(rows["unit"] == "x"))
