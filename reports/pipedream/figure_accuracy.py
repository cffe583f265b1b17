"""Drawing of Figures 10 to 12: accuracy against full-size hours, and against epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.curves import dashes
from repro.reporting.stats import spread

if TYPE_CHECKING:
    import pandas as pd

NAMES = {"bsp": "BSP", "pipedream": "PipeDream", "asp": "ASP"}
LINES = {4: (1.5, 1), 8: (1, 0), 16: (4, 1.5)}  # dashes by machines


def draw(points: pd.DataFrame, metric: str, target: float | None, lower: float | None, title: str) -> Any:
    """A panel a figure of the paper, hours on the x axis, and one of epochs; dashed horizontal lines: the targets."""
    plt, sns = style.plotting()
    timed = points.dropna(subset=["hours"])
    panels = [(name, own, "hours") for name, own in timed.groupby("figure", sort=True)]
    by_epoch = points.drop_duplicates(["setting", "seed", "epoch"])
    panels.append(("against epochs", by_epoch, "epoch"))
    figure, axes = plt.subplots(1, len(panels), figsize=(max(6.5, 3.9 * len(panels)), 4.5), sharey=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    for axis, (name, own, x) in zip(axes[0], panels, strict=True):
        for (strategy, machines), of in own.groupby(["strategy", "machines"], sort=False):
            _line(axis, of, x, strategy, machines)
        for value in (target, lower):
            if value is not None:
                axis.axhline(value, color="#555555", linewidth=0.9, linestyle="--")
        xlabel = "epochs" if x == "epoch" else "hours: epochs here x hours of an epoch of ILSVRC12"
        axis.set(title=name, xlabel=xlabel, xlim=(0, None))
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel(f"{style.metric_name(metric)} of the small workload")
    figure.legend(handles=_handles(points), loc="outside lower center", ncols=4)
    style.titled(figure, title)
    return figure


def _line(axis: Any, own: pd.DataFrame, x: str, strategy: str, machines: int) -> None:
    """Median over seeds with its band, every seed's points."""
    look = style.look(strategy)
    rows = []
    for at, some in own.groupby("epoch"):
        found = spread(some["metric"])
        rows.append((some[x].median(), found.median, found.low, found.high, at))
    xs, middle, low, high, _ = zip(*rows, strict=True)
    axis.fill_between(xs, low, high, color=look["color"], alpha=0.13, linewidth=0)
    axis.scatter(own[x], own["metric"], color=look["color"], marker=look["marker"], s=6, alpha=0.3, linewidth=0)
    axis.plot(xs, middle, color=look["color"], linewidth=1.6, linestyle=dashes({"dash": LINES.get(machines, (1, 0))}))
    step = max(1, len(xs) // 8)
    axis.plot(xs[::step], middle[::step], linestyle="none", marker=look["marker"], color=look["color"], markersize=5,
              markerfacecolor=_face(strategy, machines))  # fmt: skip


def _face(strategy: str, machines: int) -> str:
    """Markers of 16 machines are hollow."""
    return "white" if machines == max(LINES) else style.look(strategy)["color"]


def _handles(points: pd.DataFrame) -> list:
    from matplotlib.lines import Line2D

    found = points[["strategy", "machines"]].drop_duplicates().sort_values(["machines", "strategy"])
    return [
        Line2D([], [], color=style.look(strategy)["color"], marker=style.look(strategy)["marker"],
               markerfacecolor=_face(strategy, machines), linewidth=1.6,
               linestyle=dashes({"dash": LINES.get(machines, (1, 0))}),
               label=f"{NAMES.get(strategy, strategy)}, {machines} machines")
        for strategy, machines in found.itertuples(index=False)
    ]  # fmt: skip
