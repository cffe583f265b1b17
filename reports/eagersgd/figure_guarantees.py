"""Drawing of staleness by rank, and of the quorum spectrum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.eagersgd.frames_guarantees import MOST

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = 4


def staleness(found: pd.DataFrame, title: str) -> Any:
    """A panel a variant: for each rank a bar of the shares of its gradients by staleness, light 0 to dark."""
    from matplotlib.collections import PolyCollection

    plt, sns = style.plotting()
    names = list(found["setting"].unique())
    ranks = int(found["rank"].max()) + 1
    rows, columns = math.ceil(len(names) / COLUMNS), min(COLUMNS, len(names))
    height = rows * max(1.9, 0.62 + 0.25 * min(ranks, 16)) + 0.9
    figure, axes = plt.subplots(
        rows, columns, figsize=(max(7.0, 3.7 * columns), height), squeeze=False, layout="constrained"
    )
    most = min(MOST, int(found["staleness"].max()))
    colours = sns.color_palette("ch:s=.25,rot=-.25", as_cmap=True)
    for place, axis in enumerate(axes.flat):
        if place >= len(names):
            axis.set_axis_off()
            continue
        own = found[found["setting"] == names[place]]
        boxes, faces = [], []  # one collection: 64 ranks in a dozen panels would be thousands of patches
        for rank, of_rank in own.groupby("rank"):
            left = 0.0
            ages = of_rank["staleness"].clip(upper=most)
            for age, share in (100 * of_rank["share"]).groupby(ages).sum().items():
                corners = ((left, rank - 0.43), (left + share, rank - 0.43), (left + share, rank + 0.43))
                boxes.append((*corners, (left, rank + 0.43)))
                faces.append(colours(0.04 + 0.9 * age / max(most, 1)))
                left += share
        axis.add_collection(PolyCollection(boxes, facecolors=faces, linewidth=0))
        axis.set(title=names[place], xlim=(0, 100), ylim=(ranks - 0.4, -0.6))
        axis.set_yticks(range(0, ranks, max(1, ranks // 8)))
        axis.grid(False)
        sns.despine(ax=axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("rank")
    for axis in axes[-1, :]:
        axis.set_xlabel("% of the accepted gradients")
    figure.legend(handles=_shades(colours, most), loc="outside lower center", ncols=most + 1,
                  title="rounds between a gradient's step and the round that accepted it")  # fmt: skip
    style.titled(figure, title)
    return figure


def _shades(colours: Any, most: int) -> list:
    from matplotlib.patches import Patch

    return [
        Patch(facecolor=colours(0.04 + 0.9 * age / max(most, 1)), edgecolor="#bbbbbb", linewidth=0.4,
              label=f"{age} or more" if age == most == MOST else str(age))
        for age in range(most + 1)
    ]  # fmt: skip


PANELS = (("step_ms", "ms a step"), ("nap", "active processes (NAP)"), ("mean_staleness", "mean staleness (rounds)"))


def quorum(found: pd.DataFrame, metric: str, title: str) -> Any:
    """Step time, NAP, staleness and the metric (where computed) against q; solo, majority and synchronous beside it."""
    plt, sns = style.plotting()
    panels = [(column, label) for column, label in PANELS if found[column].notna().any()]
    if found["metric"].notna().any():
        panels.append(("metric", f"{style.metric_name(metric)} on the test set"))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(max(7.0, 3.9 * len(panels)), 4.3), squeeze=False, layout="constrained"
    )
    line = found[found["spectrum"]]
    others = [name for name in found["setting"].unique() if name not in set(line["setting"])]
    colour = style.look("eager-SGD (quorum)")["color"]
    for axis, (column, label) in zip(axes[0], panels, strict=True):
        middle = line.groupby("q")[column].median()
        axis.plot(middle.index, middle, color=colour, linewidth=1.5, zorder=2)
        axis.scatter(line["q"], line[column], color=colour, marker="P", s=64, edgecolor="white", linewidth=0.5,
                     zorder=3)  # fmt: skip
        for name in others:
            own, look = found[found["setting"] == name], style.look(name)
            axis.scatter(own["q"], own[column], color=look["color"], marker=look["marker"], s=46, edgecolor="white",
                         linewidth=0.6, zorder=4)  # fmt: skip
        axis.set(xlabel="quorum q (ranks that start a round)", ylabel=label)
        if column in ("step_ms", "nap"):
            axis.set_ylim(0, None)
        sns.despine(ax=axis)
    figure.legend(handles=_marks(others, colour), loc="outside lower center", ncols=4)
    style.titled(figure, title)
    return figure


def _marks(others: list[str], colour: str) -> list:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], color=colour, marker="P", markeredgecolor="white", linewidth=1.5, label="quorum q")]
    for name in others:
        look = style.look(name)
        marks.append(Line2D([], [], color=look["color"], marker=look["marker"], markeredgecolor="white", markersize=8,
                            linestyle="none", label=name))  # fmt: skip
    return marks
