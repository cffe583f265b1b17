"""The forest plot of headline claims: the paper's range, our number with its interval, and the verdict as colour."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from repro.answers.claims.verdict import WORDS
from repro.answers.figures import looks
from repro.answers.pages.cells import cell
from repro.answers.pages.writing import DPI

if TYPE_CHECKING:
    import pandas as pd

    from repro.answers.pages.files import Files

OTHER, PAPER = "not judged", "paper's range"  # names in the palette, like WORDS
LETTERS = 74  # in a line of a claim's text
GAP, LINE, PANEL, WIDTH = 0.07, 0.13, 0.45, 10.0  # inches: between rows, a line of text, a panel's axis, the figure
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
QUIET = {"fontsize": 7.5, "color": "0.35"}
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
        "draws of what the paper does not print (or all seeds). The kind of number that decides: "
        + ", ".join(f"**{kind}**" for kind in dict.fromkeys(rows["kind"]))
        + "."
    )
    return files.picture(lambda: draw(rows), "", "headlines", cell(alt), caption, rows)


def draw(rows: pd.DataFrame) -> Any:
    """The matplotlib figure, a row a claim: text, numbers, verdict. rows: as of `wording.headlines`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, NullFormatter

    panels = [(unit, rows[rows["unit"] == unit]) for unit in PANELS if (rows["unit"] == unit).any()]
    texts = [[textwrap.wrap(claim, LETTERS, break_on_hyphens=False) for claim in of["claim"]] for _, of in panels]
    ends = [list(accumulate((GAP + LINE * len(text) for text in of), initial=0.0)) for of in texts]
    heights = [of[-1] for of in ends]
    drawn, axes = plt.subplots(
        len(panels),
        figsize=(WIDTH, sum(heights) + PANEL * len(panels) + 0.4),
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
        dpi=DPI,  # at another one text is of another width than at the one of the file
    )
    for axis, (unit, of), text, end in zip(axes[:, 0], panels, texts, ends, strict=True):
        places = [(low + high) / 2 for low, high in pairwise(end)]
        for place, row in zip(places, of.to_dict("records"), strict=True):
            if unit == TEXT:
                axis.text(0.02, place, row["text"], transform=axis.get_yaxis_transform(), va="center", **QUIET)
            else:
                _line(axis, place, row)
            words = ", ".join(filter(None, (row["label"], "yours" if row["own"] else "")))
            beside = {"transform": axis.get_yaxis_transform(), "va": "center", "fontsize": 7}
            axis.text(1.02, place, words, color=_colour(row["verdict"]), **beside)
        if unit == TEXT:
            axis.set_xticks([])
        else:
            axis.axvline(1, color="0.35", linewidth=0.8, linestyle="--", zorder=0)
            axis.set_xscale("log")
            low, high = _wide(axis.get_xlim())
            axis.set_xlim(low, high)
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_xticks([tick for tick in TICKS if low <= tick <= high])
        axis.set_yticks(places, ["\n".join(lines) for lines in text], fontsize=7.5)
        axis.tick_params(axis="y", length=0)
        axis.tick_params(axis="x", labelsize=8)
        axis.set_ylim(end[-1], 0)
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


def _line(axis: Any, place: float, row: Mapping[Any, Any]) -> None:
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
