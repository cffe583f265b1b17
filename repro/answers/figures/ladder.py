"""The ladder from our number to the paper's: a row for ours, then one for each cause, with a line from the number
without it, a bar, to the number with it, a mark."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from repro.answers.figures import looks

if TYPE_CHECKING:
    import pandas as pd

OURS = "simulated"  # its look in the palette
ROW, LINE = 0.23, 0.16  # inches
MOST = 10.0  # the axis ends where a number is so many times the paper's, or its inverse
NAME = 0.45  # of the width, for the names of causes


def axis_reaches(over: float) -> bool:
    """Whether the axis reaches a number over the paper's."""
    return 1 / MOST <= over <= MOST


def draw_ladder(rows: pd.DataFrame, width: float = looks.WIDTH) -> Any:
    """The matplotlib figure, so many inches wide. rows: text, start, end (our numbers over the paper's; start: NaN in a
    row for ours), low, high (the range that counts as the paper's number, over it; NaN: an open end), status (that of
    the palette's `causes`; "" for ours)."""
    looks.set_theme()
    import matplotlib.pyplot as plt
    import seaborn as sns

    from repro.answers.figures.drawing import finish_ratio_axis

    shown = rows.assign(
        status=rows["status"].replace("", "ours"),
        end=rows["end"].clip(1 / MOST, MOST),
    )
    by_status = {name: looks.look_of(OURS if name == "ours" else name) for name in shown["status"].unique()}
    colours, markers = (
        {name: getattr(look, what) for name, look in by_status.items()} for what in ("colour", "marker")
    )
    names = [looks.fit_text(text, NAME * width) for text in rows["text"]]
    heights = [max(ROW, LINE * (name.count("\n") + 1)) for name in names]
    ends = list(accumulate(heights))
    shown["place"] = [end - height / 2 for end, height in zip(ends, heights, strict=True)]
    figure, axis = plt.subplots(figsize=(width, ends[-1] + 1.0), layout="constrained")
    sns.scatterplot(shown, x="end", y="place", hue="status", palette=colours, style="status", markers=markers, s=26,
                    linewidth=0, ax=axis)  # fmt: skip
    shown["start"] = shown["start"].clip(1 / MOST, MOST)
    of_rows = [colours[status] for status in shown["status"]]
    axis.scatter(shown["start"], shown["place"], marker="|", s=70, c=of_rows, linewidth=1.5)
    axis.hlines(shown["place"], shown["start"], shown["end"], colors=of_rows, linewidth=1.5)
    axis.set(ylim=(ends[-1], 0), ylabel="")
    axis.set_xlabel(looks.fit_text("our number over the paper's (dashed: the same)", (1 - NAME) * width - 0.5))
    finish_ratio_axis(axis, ticks=max(3, int(0.85 * width)))  # with 2 an axis from 0.1 to 10 has 1 alone
    least, most = axis.get_xlim()
    low, high = shown["low"].fillna(least).clip(least, most), shown["high"].fillna(most).clip(least, most)
    axis.barh(shown["place"], high - low, heights, low, color="0.92", linewidth=0, zorder=-1)
    axis.set_yticks(shown["place"], names)
    for label, status in zip(axis.get_yticklabels(), shown["status"], strict=True):
        label.set_fontweight("bold" if status == "ours" else "normal")
    axis.grid(False, axis="y")
    handles, names = axis.get_legend_handles_labels()
    if legend := axis.get_legend():
        legend.remove()
    figure.legend(
        handles, names, loc="outside lower center", ncols=looks.columns_of_legend(names, width), frameon=False
    )
    sns.despine(figure, left=True)
    return figure
