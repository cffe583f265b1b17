"""Gantt charts: a line for each of those that work, a box for each stretch of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repro.answers.figures import looks

if TYPE_CHECKING:
    import pandas as pd

    from repro.answers.figures.specification import Figure

HEIGHT = 0.84  # of a box in a line of 1
DIGIT = 0.012  # of an axis, the width of a digit


def draw(axis: Any, figure: Figure, rows: pd.DataFrame, hues: Sequence[Any]) -> None:
    """Boxes from `x` to `end` in the line of `y`, coloured by `hue`; `text` where it fits."""
    import pandas as pd

    column = str(figure.y)
    lines = list(dict.fromkeys(rows[column]))
    end = float(rows[figure.end].max())
    for box in rows.to_dict("records"):
        place, start, width = lines.index(box[column]), box[figure.x], box[figure.end] - box[figure.x]
        look = looks.look(box[figure.hue])
        axis.broken_barh([(start, width)], (place - HEIGHT / 2, HEIGHT), facecolor=look.colour, hatch=look.hatch,
                         edgecolor="white", linewidth=0.5)  # fmt: skip
        text = "" if not figure.text or pd.isna(box[figure.text]) else f"{box[figure.text]:g}"
        if text and width > DIGIT * (len(text) + 0.5) * end:
            axis.text(start + width / 2, place, text, ha="center", va="center", fontsize=8)
    axis.set_xlim(0, end)
    axis.set_yticks(range(len(lines)), [looks.called(line) for line in lines])
    axis.set_ylim(len(lines) - 0.45, -0.55)
    axis.grid(False, axis="y")
    axis.spines["left"].set_visible(False)
