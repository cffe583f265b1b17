"""Gantt charts: a line for each of those that work, a box for each stretch of work; the one kind drawn by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from repro.answers.figures.specification import Figure

HEIGHT = 0.8  # of a box in a line of 1
WIDTH = 0.011  # of a digit, as a share of the drawing


def draw(figure: Figure, shown: pd.DataFrame) -> Any:
    """The matplotlib figure: boxes from `x` to `end` in the line of `y`, coloured by `hue`; `text` where it fits."""
    import matplotlib.pyplot as plt
    import pandas as pd
    import seaborn as sns
    from matplotlib.patches import Patch

    lines = list(dict.fromkeys(shown[figure.y]))
    names = figure.hue_order or list(dict.fromkeys(shown[figure.hue]))
    colours = dict(zip(names, sns.color_palette("colorblind", len(names))))
    drawn, axis = plt.subplots(figsize=(figure.height * figure.aspect, figure.height))
    end = float(shown[figure.end].max())
    for place, line in enumerate(lines):
        for _, box in shown[shown[figure.y] == line].iterrows():
            start, width = box[figure.x], box[figure.end] - box[figure.x]
            axis.broken_barh([(start, width)], (place - HEIGHT / 2, HEIGHT), facecolor=colours[box[figure.hue]],
                             edgecolor="white", linewidth=0.6)  # fmt: skip
            text = "" if not figure.text or pd.isna(box[figure.text]) else f"{box[figure.text]:g}"
            if text and width > WIDTH * len(text) * end:
                axis.text(start + width / 2, place, text, ha="center", va="center", fontsize=7.5, color="white")
    axis.set(xlim=(0, end), xlabel=figure.labels.get(figure.x, figure.x))
    axis.set_yticks(range(len(lines)), lines)
    axis.invert_yaxis()
    axis.grid(False, axis="y")
    sns.despine(ax=axis, left=True)
    drawn.legend(handles=[Patch(color=colours[name], label=name) for name in names], loc="outside lower right",
                 ncols=len(names), frameon=False)  # fmt: skip
    drawn.suptitle(figure.title, x=0.01, ha="left", fontsize=11)
    return drawn
