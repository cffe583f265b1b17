"""Drawing of Figure 4's row (inset, whole curve, breakdown), and of accuracy against epochs beside time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports import frames, style
from reports.stats import DASH

if TYPE_CHECKING:
    import pandas as pd


def row(points: pd.DataFrame, median: pd.DataFrame, bars: pd.DataFrame, goals: list[float], title: str) -> Any:
    """The three panels of Figure 4; the frames are those of `reports.frames` (seconds)."""
    plt, _ = style.plotting()
    figure, axes = plt.subplot_mosaic(
        [["inset", "whole", "bars"], ["settings", "settings", "phases"]],
        figsize=(15, 5.4),
        layout="constrained",
        gridspec_kw={"width_ratios": [1, 1, 1.15], "height_ratios": [1, 0.16]},
    )
    x_range, y_range = frames.inset(points, median, goals)
    _curves(axes["inset"], points, median, goals, "train_s", marks=(x_range, y_range))
    axes["inset"].set(
        xlim=x_range, ylim=y_range, xlabel="training time (s)", ylabel="top-1 on the test set", title="(a) inset of (b)"
    )
    _goal_labels(axes["inset"], goals)
    _curves(axes["whole"], points, median, goals, "train_s")
    axes["whole"].set(
        xlim=(0, None),
        ylim=(None, 1.01),
        xlabel="training time (s)",
        ylabel="top-1 on the test set",
        title="(b) whole training",
    )
    _bars(axes["bars"], bars)
    _legend(axes["settings"], *_setting_handles(median), ncols=4)
    _legend(axes["phases"], *axes["bars"].get_legend_handles_labels(), ncols=3)
    figure.suptitle(title)
    return figure


def _legend(axis: Any, handles: list, labels: list[str], ncols: int) -> None:
    """A legend in a panel of its own."""
    axis.axis("off")
    axis.legend(handles, labels, loc="upper center", ncols=ncols, borderaxespad=0, columnspacing=1.6)


def convergence(points: pd.DataFrame, median: pd.DataFrame, goals: list[float], title: str) -> Any:
    """Top-1 against epochs (what the algorithm needs) beside top-1 against time (what it takes), near the top."""
    plt, _ = style.plotting()
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.8), sharey=True, layout="constrained")
    best = float(points["metric"].max())
    reached = [goal for goal in goals if goal < best]
    low = max(float(points["metric"].min()), max(0.8 * best, min(reached, default=0.0) - 0.05))
    for axis, x, label in ((axes[0], "epoch", "epochs"), (axes[1], "train_s", "training time (s)")):
        _curves(axis, points, median, goals, x)
        axis.set(xlim=(0, None), xlabel=label, ylabel="top-1 on the test set")
    axes[0].set(ylim=(low - 0.005, best + 0.08 * (best - low) + 0.002), title="accuracy against epochs")
    axes[1].set_title("accuracy against time")
    _goal_labels(axes[1], goals)
    handles, labels = _setting_handles(median)
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    figure.suptitle(title)
    return figure


def _curves(
    axis: Any, points: pd.DataFrame, median: pd.DataFrame, goals: list[float], x: str, marks: tuple | None = None
) -> None:
    """Median line, band and every seed's points of each setting; `marks` ((x), (y)): where the markers must fall."""
    _, sns = style.plotting()
    names = tuple(median["setting"].unique())
    for name in names:
        look, at, own = style.look(name, names), median[median["setting"] == name], points[points["setting"] == name]
        inside = at if marks is None else at[(at[x] <= marks[0][1]) & (at["metric"] >= marks[1][0])]
        sns.scatterplot(
            data=own,
            x=x,
            y="metric",
            ax=axis,
            color=look["color"],
            marker=look["marker"],
            s=7,
            alpha=0.35,
            linewidth=0,
            legend=False,
            zorder=2,
        )
        axis.fill_between(at[x], at["low"], at["high"], color=look["color"], alpha=0.13, linewidth=0)
        sns.lineplot(
            data=at,
            x=x,
            y="metric",
            ax=axis,
            color=look["color"],
            estimator=None,
            linewidth=1.6,
            dashes=False,
            legend=False,
            zorder=3,
        )
        axis.lines[-1].set_dashes(look["dash"]) if look["dash"] != (1, 0) else None
        shown = inside.iloc[:: max(1, len(inside) // 12)]
        axis.plot(
            shown[x],
            shown["metric"],
            linestyle="none",
            marker=look["marker"],
            markersize=5.5,
            color=look["color"],
            markeredgecolor="white",
            markeredgewidth=0.5,
            zorder=4,
        )
    for goal in goals:
        axis.axhline(goal, color="#777777", linestyle="--", linewidth=0.9, zorder=1)
    sns.despine(ax=axis)


def _goal_labels(axis: Any, goals: list[float]) -> None:
    low, high = axis.get_ylim()
    shown = [goal for goal in goals if low < goal < high]
    beside = {"xytext": (3, 0), "textcoords": "offset points", "ha": "left", "va": "center"}
    for goal in shown:
        text = f"target\n{goal:g}" if goal == max(shown) else f"{goal:g}"
        axis.annotate(text, (1, goal), xycoords=("axes fraction", "data"), fontsize=7.5, color="#555555", **beside)


def _setting_handles(median: pd.DataFrame) -> tuple[list, list]:
    from matplotlib.lines import Line2D

    names = tuple(median["setting"].unique())
    looks = [style.look(name, names) for name in names]
    handles = [
        Line2D(
            [],
            [],
            color=look["color"],
            marker=look["marker"],
            markeredgecolor="white",
            markersize=7,
            linewidth=1.8,
            linestyle="-" if look["dash"] == (1, 0) else (0, look["dash"]),
        )
        for look in looks
    ]
    return handles, list(names)


def _bars(axis: Any, bars: pd.DataFrame) -> None:
    """Stacked seconds of the main line; beside each bar, hatched, the communication hidden behind it."""
    _, sns = style.plotting()
    places = list(range(len(bars)))
    bottom = [0.0] * len(bars)
    for name in frames.STACK:
        heights = bars[name].tolist()
        if max(heights, default=0.0) > 0:
            axis.bar(
                [p - 0.09 for p in places],
                heights,
                0.56,
                bottom,
                color=style.PHASE_COLOURS[name],
                edgecolor="white",
                linewidth=0.4,
                label=style.PHASE_LABELS[name],
            )
        bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
    if bars["hidden"].max() > 0:
        axis.bar(
            [p + 0.31 for p in places], bars["hidden"], 0.2, label="communication, hidden (beside)", **style.HIDDEN
        )
    top = max([*bottom, *bars["hidden"]], default=1.0) or 1.0
    for place, height, hidden, metric in zip(places, bottom, bars["hidden"], bars["metric"], strict=True):
        text = DASH if metric != metric else f"{metric:.4f}"
        axis.annotate(
            text, (place, max(height, hidden)), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8
        )
    axis.set(
        ylim=(0, 1.1 * top),
        ylabel="end-to-end training (s)",
        xlabel="",
        title="(c) where the time goes; final top-1 on top",
    )
    axis.set_xticks(places, [name.replace(" + ", "\n+ ") for name in bars["setting"]])
    axis.grid(False, axis="x")
    sns.despine(ax=axis)
