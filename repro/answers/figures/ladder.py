"""The ladder from our number to the paper's: a row for ours, then one for each cause, with an arrow from the number
without it to the number with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from repro.answers.figures import looks
from repro.answers.pages.writing import DPI

if TYPE_CHECKING:
    import pandas as pd

OURS = "simulated"  # its look in the palette
ROW, WIDTH = 0.23, 8.0  # inches
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10)


def draw_ladder(rows: pd.DataFrame) -> Any:
    """The matplotlib figure. rows: text, start, end (our numbers over the paper's; start: NaN in a row for ours),
    status (that of the palette's `causes`; "" for ours)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, NullFormatter

    drawn, axis = plt.subplots(figsize=(WIDTH, ROW * len(rows) + 1.0), layout="constrained", dpi=DPI)
    axis.axvline(1, color="0.35", linewidth=0.8, linestyle="--", zorder=0)
    for place, row in enumerate(rows.to_dict("records")):
        colour = looks.look(row["status"] or OURS).colour
        if not math.isnan(row["start"]) and row["start"] != row["end"]:
            arrow = {"arrowstyle": "->", "color": colour, "linewidth": 1.5}
            axis.annotate("", (row["end"], place), (row["start"], place), arrowprops=arrow)
        axis.plot([row["end"]], [place], color=colour, marker="o", markersize=5)
    axis.set_xscale("log")
    ends = [end for name in ("start", "end") for end in rows[name] if end > 0]
    low, high = 0.8 * min([*ends, 0.8]), 1.25 * max([*ends, 1.25])
    axis.set_xlim(low, high)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xticks([tick for tick in TICKS if low <= tick <= high])
    axis.set_yticks(range(len(rows)), rows["text"], fontsize=7.5)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_xlabel("our number over the paper's (dashed: the same)", fontsize=8)
    axis.grid(True, axis="x", color="0.92")
    axis.spines[["top", "right", "left"]].set_visible(False)
    names = [name for name in dict.fromkeys(rows["status"]) if name]
    marks = [Line2D([], [], color=looks.look(name or OURS).colour, marker="o", linestyle="", label=name or "ours")
             for name in ("", *names)]  # fmt: skip
    drawn.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8)
    return drawn
