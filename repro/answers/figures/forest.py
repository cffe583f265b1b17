"""The forest plot of headline claims: ours over the paper's number on one axis, both numbers, and the verdict."""

from __future__ import annotations

import textwrap
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from repro.answers.claims.stats import middle_of_range
from repro.answers.figures import looks
from repro.answers.pages.cells import fit_cell

if TYPE_CHECKING:
    import pandas as pd

    from repro.answers.pages.files import Files
    from repro.answers.pages.markdown import Markdown

PAPER = "paper's range"  # its name in the palette
LETTERS = 56  # in a line of a claim's text
LONGEST = 40  # letters of a number and its range
VERDICT = 32  # letters in a line of a verdict
LINE, GAP = 0.125, 0.06  # inches: a line of text, and between rows
SIZE = 7  # points
COLUMNS = (6, 150)  # points right of the axis: the numbers, the verdict


def forest_picture(files: Files, rows: pd.DataFrame, which: str = "The headline claims") -> Markdown:
    """The picture on a page, as Markdown. rows: as for `draw_forest`; which: the beginning of the caption."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in rows["verdict"].value_counts().items())
    alt = f"A line for each headline claim with the paper's number and ours: {counts}."
    caption = (
        f"{which}: our number over the paper's (dashed; grey: the paper's range), with nine in ten draws of what the "
        "paper does not print (or all seeds). Bar: no effect, if the claim is of a ratio. A row without a mark is of a "
        "number that is no ratio. The kind of number that decides: "
        + ", ".join(f"**{kind}**" for kind in dict.fromkeys(rows["kind"]))
        + "."
    )
    return files.picture(lambda: draw_forest(rows), "", "headlines", fit_cell(alt), caption, rows)


def draw_forest(rows: pd.DataFrame) -> Any:
    """The matplotlib figure, a row a claim: text, ratio, numbers, verdict. rows: as of `wording.headlines`."""
    looks.set_theme()
    import matplotlib.pyplot as plt
    import seaborn as sns

    from repro.answers.figures.drawing import finish_ratio_axis

    texts = [textwrap.wrap(claim, LETTERS, break_on_hyphens=False) for claim in rows["claim"]]
    ends = [*accumulate((GAP + LINE * max(2, len(text)) for text in texts), initial=0.0)]
    shown = _over_the_papers(rows).assign(place=[(low + high) / 2 for low, high in pairwise(ends)])
    of = {word: looks.look_of(word, place) for place, word in enumerate(looks.palette_order(rows["verdict"]))}
    figure, axis = plt.subplots(figsize=(looks.WIDTH, ends[-1] + 0.9), layout="constrained")
    colours, grey = {word: look.colour for word, look in of.items()}, looks.look_of(PAPER).colour
    axis.hlines(shown["place"], shown["paper_low"], shown["paper_high"], color=grey, linewidth=6)
    axis.hlines(shown["place"], shown["low"], shown["high"], colors=[*shown["verdict"].map(colours)], linewidth=1.6)
    axis.scatter(shown["none"], shown["place"], marker="|", s=60, color="0.2", linewidth=1)
    markers = {word: look.marker for word, look in of.items()}
    sns.scatterplot(shown, x="ours", y="place", hue="verdict", palette=colours, style="verdict", markers=markers,
                    s=32, linewidth=0, legend=False, zorder=3, ax=axis)  # fmt: skip
    axis.set(ylim=(ends[-1], 0), xlabel="ours over the paper's number", ylabel="")
    finish_ratio_axis(axis, ticks=5)
    axis.set_yticks(shown["place"], ["\n".join(lines) for lines in texts], fontsize=SIZE)
    axis.grid(False, axis="y")
    for row in shown.to_dict("records"):
        whose = ", yours" if row["own"] else ""
        numbers = "\n".join(textwrap.shorten(row[name], LONGEST, placeholder=" ...") for name in ("printed", "number"))
        verdict = textwrap.fill(f"{row['label']} ({row['kind']}{whose})", VERDICT)
        for text, right, colour in zip((numbers, verdict), COLUMNS, ("0.2", colours[row["verdict"]]), strict=True):
            axis.annotate(text, (1, row["place"]), xycoords=axis.get_yaxis_transform(), xytext=(right, 0), color=colour,
                          textcoords="offset points", va="center", fontsize=SIZE, annotation_clip=False)  # fmt: skip
    sns.despine(figure, left=True)
    return figure


def _over_the_papers(rows: pd.DataFrame) -> pd.DataFrame:
    """The numbers over the middle of the paper's range, or over its one bound; `none`: where a ratio has no effect."""
    numbers = ["paper_low", "paper_high", "low", "ours", "high"]
    middle = rows.apply(lambda row: middle_of_range(row["paper_low"], row["paper_high"]), axis=1)
    over = rows[numbers].div(middle, axis=0)
    return rows.assign(**{name: over[name] for name in numbers}, none=(1 / middle).where(rows["unit"] == "x"))
