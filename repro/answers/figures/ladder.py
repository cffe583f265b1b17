"""The ladder from our number to the paper's: a row for ours, then one for each cause, with an arrow from the number
without it to the number with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from repro.answers.figures import looks

if TYPE_CHECKING:
    import pandas as pd

OURS = "simulated"  # its look in the palette
ROW = 0.23  # inches


def draw_ladder(rows: pd.DataFrame) -> Any:
    """The matplotlib figure. rows: text, start, end (our numbers over the paper's; start: NaN in a row for ours),
    status (that of the palette's `causes`; "" for ours)."""
    looks.set_theme()
    import matplotlib.pyplot as plt
    import seaborn as sns

    from repro.answers.figures.drawing import finish_ratio_axis

    shown = rows.assign(place=range(len(rows)), status=rows["status"].replace("", "ours"))
    by_status = {name: looks.look_of(OURS if name == "ours" else name) for name in shown["status"].unique()}
    colours, markers = (
        {name: getattr(look, what) for name, look in by_status.items()} for what in ("colour", "marker")
    )
    figure, axis = plt.subplots(figsize=(looks.WIDTH, ROW * len(rows) + 1.0), layout="constrained")
    sns.scatterplot(shown, x="end", y="place", hue="status", palette=colours, style="status", markers=markers, s=26,
                    linewidth=0, ax=axis)  # fmt: skip
    axis.set(ylim=(len(rows) - 0.4, -0.6), xlabel="our number over the paper's (dashed: the same)", ylabel="")
    axis.plot(shown["start"], shown["place"], linestyle="none")  # arrows do not widen an axis
    finish_ratio_axis(axis, ticks=7)
    for row in shown.to_dict("records"):
        if not math.isnan(row["start"]) and row["start"] != row["end"]:
            arrow = {"arrowstyle": "->", "color": colours[row["status"]], "linewidth": 1.5}
            axis.annotate("", (row["end"], row["place"]), (row["start"], row["place"]), arrowprops=arrow)
    axis.set_yticks(shown["place"], shown["text"])
    axis.grid(False, axis="y")
    handles, names = axis.get_legend_handles_labels()
    if legend := axis.get_legend():
        legend.remove()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    sns.despine(figure, left=True)
    return figure
