"""The forest plot of headline claims: the paper's range, our number with its interval, and the verdict as colour."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repro.answers.claims.verdict import CONFIRMED, IN_DIRECTION, OPEN, REFUTED
from repro.answers.figures import looks
from repro.answers.pages.cells import cell

if TYPE_CHECKING:
    import pandas as pd

    from repro.answers.pages.files import Files

WORDS = (CONFIRMED, IN_DIRECTION, REFUTED, OPEN)
OTHER, PAPER = "not judged", "paper's range"  # names in the palette, like WORDS
LETTERS = 104  # in a line of a claim's text
ROW, LINE, WIDTH = 0.4, 0.16, 8.0  # inches: a row without its text, a line of text, the figure
TEXT = "-"  # unit of claims whose numbers do not fit on an axis of ratios
PANELS = {
    "x": "times as fast, or as much (dashed: no effect)",
    "": "ours over the paper's number (dashed: the same)",
    TEXT: "differences and other claims that do not fit on an axis of ratios",
}


def picture(files: Files, rows: pd.DataFrame, which: str = "The headline claims") -> str:
    """The picture on a page, as Markdown. rows: as for `draw`; which: the beginning of the caption."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in rows["verdict"].value_counts().items())
    alt = f"A line for each headline claim with the paper's number and ours: {counts}."
    caption = (
        f"{which}: the paper's number (diamond) or range, and ours in the colour of the verdict, with nine in ten "
        "draws of the inputs that the paper does not print (or all seeds). The kind of number that decides: "
        + ", ".join(f"**{kind}**" for kind in dict.fromkeys(rows["kind"]))
        + "."
    )
    return files.picture(lambda: draw(rows), "", "headlines", cell(alt), caption, rows)


def draw(rows: pd.DataFrame) -> Any:
    """The matplotlib figure. rows: as of `wording.headlines`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, NullFormatter

    panels = [(unit, rows[rows["unit"] == unit]) for unit in PANELS if (rows["unit"] == unit).any()]
    lines = max(len(textwrap.wrap(claim, LETTERS)) for claim in rows["claim"])
    heights = [len(of) + 0.8 for _, of in panels]
    drawn, axes = plt.subplots(
        len(panels),
        figsize=(WIDTH, (ROW + LINE * lines) * sum(heights) + 1.2),
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    for axis, (unit, of) in zip(axes[:, 0], panels, strict=True):
        if unit == TEXT:
            for place, text in enumerate(of["text"]):
                axis.text(0, place, text, transform=axis.get_yaxis_transform(), fontsize=8, va="center", color="0.35")
            axis.set_xticks([])
        else:
            for place, row in enumerate(of.to_dict("records")):
                _line(axis, place, row)
            axis.axvline(1, color="0.35", linewidth=0.8, linestyle="--", zorder=0)
            axis.set_xscale("log")
            low, high = _wide(axis.get_xlim())
            axis.set_xlim(low, high)
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_xticks([tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high])
        axis.set_yticks([])
        axis.set_ylim(len(of) - 0.4, -0.9)
        for place, claim in enumerate(of["claim"]):
            text = "\n".join(textwrap.wrap(claim, LETTERS))
            axis.text(0, place - 0.15, text, transform=axis.get_yaxis_transform(), fontsize=8, va="bottom")
        for place, row in enumerate(of.to_dict("records")):
            words = ", ".join(filter(None, (row["verdict"], row["share"], "yours" if row["own"] else "")))
            at = {"transform": axis.get_yaxis_transform(), "ha": "right", "va": "bottom", "fontsize": 7}
            axis.text(1, place - 0.15, words, color=_colour(row["verdict"]), **at)
        axis.set_xlabel(PANELS[unit], fontsize=8)
        axis.grid(True, axis="x", color="0.92")
        axis.spines[["top", "right", "left"]].set_visible(False)
    verdicts = [word for word in dict.fromkeys((*WORDS, *rows["verdict"])) if (rows["verdict"] == word).any()]
    marks = [Line2D([], [], color=_colour(PAPER), linewidth=7, label="paper")]
    marks += [Line2D([], [], color=_colour(word), marker="o", linewidth=2, label=word) for word in verdicts]
    drawn.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8)
    return drawn


def _wide(limits: tuple[float, float]) -> tuple[float, float]:
    """Limits from a half to 2 at least, so that ratios near 1 look near 1."""
    return min(limits[0], 0.5), max(limits[1], 2.0)


def _line(axis: Any, place: int, row: Mapping[Any, Any]) -> None:
    colour = _colour(row["verdict"])
    low, high = row["paper_low"], row["paper_high"]
    if low == high:
        axis.plot([low], [place], color=_colour(PAPER), marker="D", markersize=8, linestyle="")
    elif low == low and high == high:
        axis.plot([low, high], [place, place], color=_colour(PAPER), linewidth=7, solid_capstyle="butt")
    elif low == low or high == high:  # one bound
        at = low if low == low else high
        axis.plot([at], [place], color=_colour(PAPER), marker=">" if low == low else "<", markersize=9, linestyle="")
    axis.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=2)
    axis.plot([row["ours"]], [place], color=colour, marker="o", markersize=5)


def _colour(word: str) -> str:
    """The colour of a verdict, or of claims without one."""
    return str(looks.look(word if word in (*WORDS, PAPER) else OTHER).colour)
