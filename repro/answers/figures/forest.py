"""The forest plot of headline claims: a row a claim with ours over the paper's number on one axis, both numbers, the
word of the verdict and the kind of number."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from repro.answers.claims.stats import middle_of_range
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
COLUMNS = {"paper": 6, "ours (90 %)": 100, "word": 216, "kind": 280}  # points right of the axis
LETTERS = {"paper": 24, "ours (90 %)": 30}  # the most in a column


def forest_picture(files: Files, rows: pd.DataFrame, title: str) -> Markdown:
    """The picture on a page, as Markdown. rows: as for `draw_forest`; title: a sentence on the result."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in rows["verdict"].value_counts().items())
    alt = f"A line for each headline claim with the paper's number and ours: {counts}."
    caption = (
        "Marks are our number over the paper's, or the middle of its range (grey box), with the range of nine in ten "
        "[draws](index.md#legend), or of all seeds (of one: the test set's error). A bar stands at no effect."
    )
    return files.picture(
        lambda width: draw_forest(rows, title), title, "headlines", fit_cell(alt), caption, rows, narrow=False
    )


def draw_forest(rows: pd.DataFrame, title: str) -> Any:
    """The matplotlib figure. rows: as of `ClaimTables.headline_rows`; with a column `paper` in groups."""
    looks.set_theme()
    import matplotlib.pyplot as plt
    import seaborn as sns

    from repro.answers.figures.drawing import finish_ratio_axis

    groups = rows["paper"] if "paper" in rows else rows["claim"].map(lambda _: "")
    starts = groups.ne(groups.shift()) & groups.ne("")  # a line with the name of the group stands before these rows
    shown = _over_the_papers(rows).assign(place=[n + heads for n, heads in enumerate(starts.cumsum())])
    lines = len(rows) + int(starts.sum())
    looks_of = {word: looks.look_of(word, place) for place, word in enumerate(looks.palette_order(rows["verdict"]))}
    figure, axis = plt.subplots(figsize=(looks.WIDTH, ROW * (max(lines, 2) + 1) + 0.7), layout="constrained")
    colours, grey = {word: look.colour for word, look in looks_of.items()}, looks.look_of(PAPER).colour
    axis.barh(shown["place"], shown["paper_high"] - shown["paper_low"], 0.5, shown["paper_low"], color="0.9",
              edgecolor=grey, linewidth=0.7)  # fmt: skip
    axis.hlines(shown["place"], shown["low"], shown["high"], colors=[*shown["verdict"].map(colours)], linewidth=1.4)
    axis.scatter(shown["none"], shown["place"], marker="|", s=36, color="0.2", linewidth=1)
    markers = {word: look.marker for word, look in looks_of.items()}
    sns.scatterplot(shown, x="ours", y="place", hue="verdict", palette=colours, style="verdict", markers=markers,
                    s=22, linewidth=0, legend=False, zorder=3, ax=axis)  # fmt: skip
    axis.set(ylim=(lines - 0.4, -0.6), ylabel="")
    axis.set_xlabel("ours over the paper's number", fontsize=SIZE)
    finish_ratio_axis(axis, ticks=5)
    axis.tick_params(axis="x", labelsize=SIZE)
    heads = dict(zip(shown["place"][starts] - 1, groups[starts], strict=True))
    axis.set_yticks([*shown["place"], *heads], [*shown["short"], *heads.values()], fontsize=SIZE)
    for label in axis.get_yticklabels()[len(shown) :]:
        label.set_fontweight("bold")
    axis.grid(False, axis="y")
    beside: dict[str, Any] = {"xycoords": axis.get_yaxis_transform(), "textcoords": "offset points", "va": "center",
                              "fontsize": SIZE, "annotation_clip": False}  # fmt: skip
    for name, right in COLUMNS.items():
        axis.annotate(name, (1, -1.1), xytext=(right, 0), fontweight="bold", color="0.2", **beside)
    for row in shown.to_dict("records"):
        whose, colour = ", yours" if row["own"] else "", colours[row["verdict"]]
        texts = (row["printed"].partition(" (")[0], row["number"], row["word"], row["kind"] + whose)
        for (name, right), text, ink in zip(COLUMNS.items(), texts, ("0.2", "0.2", colour, "0.2"), strict=True):
            text = textwrap.shorten(text, LETTERS.get(name, 40), placeholder=" ...")
            axis.annotate(text, (1, row["place"]), xytext=(right, 0), color=ink, **beside)
    figure.suptitle(looks.fit_text(title, looks.WIDTH - 0.2, TITLE), x=0.01, ha="left", fontsize=10)
    sns.despine(figure, left=True)
    return figure


def _over_the_papers(rows: pd.DataFrame) -> pd.DataFrame:
    """The numbers over the middle of the paper's range, or over its one bound; `none`: where a ratio has no effect."""
    middle = rows.apply(lambda row: middle_of_range(row["paper_low"], row["paper_high"]), axis=1)
    over = rows[[*NUMBERS]].div(middle, axis=0)
    return rows.assign(**{name: over[name] for name in NUMBERS}, none=(1 / middle).where(rows["unit"] == "x"))
