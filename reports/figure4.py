"""Drawing of Figure 4 (inset, whole curve, breakdown), a row or all of it, and of accuracy against epochs and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro.reports import frames, style

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RowData:
    """What a row draws: the frames of `repro.reports.frames` (s) and the targets; without points only the breakdown."""

    label: str
    points: pd.DataFrame
    median: pd.DataFrame
    bars: pd.DataFrame
    goals: list[float]


def row(data: RowData, title: str) -> Any:
    """The three panels of a row of Figure 4, or the breakdown alone where only time was modelled."""
    plt, _ = style.plotting()
    if not len(data.points):
        figure, axes = plt.subplot_mosaic(
            [["bars"], ["phases"]], figsize=(8.6, 5.2), layout="constrained", gridspec_kw={"height_ratios": [1, 0.16]}
        )
        _bars(axes["bars"], data.bars)
    else:
        figure, axes = plt.subplot_mosaic(
            [["inset", "whole", "bars"], ["variants", "variants", "phases"]],
            figsize=(15, 5.4),
            layout="constrained",
            gridspec_kw={"width_ratios": [1, 1, 1.15], "height_ratios": [1, 0.16]},
        )
        _panels(data, axes["inset"], axes["whole"], axes["bars"])
        _legend(axes["variants"], *_variant_handles(data.median), ncols=4)
    _legend(axes["phases"], *axes["bars"].get_legend_handles_labels(), ncols=3)
    style.titled(figure, title)
    return figure


def whole(rows: Sequence[RowData | str], title: str) -> Any:
    """Figure 4: a row a benchmark, three columns; a row that is text (why there is nothing) stays empty with it."""
    import pandas as pd

    plt, _ = style.plotting()
    places = [[f"inset{i}", f"whole{i}", f"bars{i}"] for i in range(len(rows))]
    figure, axes = plt.subplot_mosaic(
        [*places, ["variants", "variants", "phases"]],
        figsize=(15, 4.3 * len(rows) + 0.9),
        layout="constrained",
        gridspec_kw={"width_ratios": [1, 1, 1.15], "height_ratios": [*[1] * len(rows), 0.2]},
    )
    phases: dict[str, Any] = {}
    for i, data in enumerate(rows):
        panels = [axes[name] for name in places[i]]
        if isinstance(data, str):
            for axis in panels:
                _nothing(axis, data)
            continue
        if len(data.points):
            _panels(data, *panels)
        else:
            _nothing(panels[0], "timing only: no accuracy is computed")
            _nothing(panels[1], "timing only: no accuracy is computed")
            _bars(panels[2], data.bars)
        panels[0].set_ylabel(f"{data.label}\n{panels[0].get_ylabel()}".strip(), fontweight="bold")
        handles, labels = panels[2].get_legend_handles_labels()
        phases |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in phases}
    there = [data.median for data in rows if not isinstance(data, str) and len(data.points)]
    if there:
        handles, labels = _variant_handles(pd.concat(there))
        _legend(axes["variants"], handles, labels, ncols=4)
    axes["variants"].axis("off")
    _legend(axes["phases"], list(phases.values()), list(phases), ncols=3)
    style.titled(figure, title)
    return figure


def _nothing(axis: Any, text: str) -> None:
    """An empty panel that says why it is empty."""
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_color("#dddddd")
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color="#777777", wrap=True)


def _panels(data: RowData, inset: Any, whole_axis: Any, bars: Any) -> None:
    points, median, goals = data.points, data.median, data.goals
    x_range, y_range = frames.inset(points, median, goals)
    _curves(inset, points, median, goals, "train_s", marks=(x_range, y_range))
    inset.set(
        xlim=x_range, ylim=y_range, xlabel="training time (s)", ylabel="top-1 on the test set", title="(a) inset of (b)"
    )
    _goal_labels(inset, goals)
    _curves(whole_axis, points, median, goals, "train_s")
    top = float(points["metric"].max())
    whole_axis.set(
        xlim=(0, None),
        ylim=(None, 1.01 if top > 0.9 else 1.08 * max([top, *goals])),
        xlabel="training time (s)",
        ylabel="top-1 on the test set",
        title="(b) whole training",
    )
    _bars(bars, data.bars)


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
    handles, labels = _variant_handles(median)
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    style.titled(figure, title)
    return figure


def _curves(
    axis: Any, points: pd.DataFrame, median: pd.DataFrame, goals: list[float], x: str, marks: tuple | None = None
) -> None:
    """Median line, band and every seed's points of each variant; `marks` ((x), (y)): where the markers must fall."""
    _, sns = style.plotting()
    names = tuple(median["setting"].unique())
    for name in names:
        look, at, own = style.look(name, names), median[median["setting"] == name], points[points["setting"] == name]
        inside = at if marks is None else at[(at[x] <= marks[0][1]) & (at["metric"] >= marks[1][0])]
        axis.scatter(
            own[x], own["metric"], color=look["color"], marker=look["marker"], s=7, alpha=0.35, linewidth=0, zorder=2
        )
        axis.fill_between(at[x], at["low"], at["high"], color=look["color"], alpha=0.13, linewidth=0)
        dashes = "-" if look["dash"] == (1, 0) else (0, look["dash"])
        axis.plot(at[x], at["metric"], color=look["color"], linewidth=1.6, linestyle=dashes, zorder=3)
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


def _variant_handles(median: pd.DataFrame) -> tuple[list, list]:
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
    timing_only = bars["metric"].isna().all()
    marks = [f"{ms:.4g} ms" for ms in bars["step_ms"]] if timing_only else [f"{m:.4f}" for m in bars["metric"]]
    for place, height, hidden, text in zip(places, bottom, bars["hidden"], marks, strict=True):
        axis.annotate(
            text, (place, max(height, hidden)), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8
        )
    axis.set(
        ylim=(0, 1.1 * top),
        ylabel="milliseconds an iteration" if bars["unit"].eq(frames.PER_STEP).any() else "end-to-end training (s)",
        xlabel="",
        title="(c) where the time goes; " + ("an iteration's time on top" if timing_only else "final top-1 on top"),
    )
    axis.set_xticks(places, [name.replace(" + ", "\n+ ") for name in bars["setting"]])
    if len(bars) > 5:  # seven names side by side
        axis.tick_params(axis="x", labelsize=7.5)
    axis.grid(False, axis="x")
    sns.despine(ax=axis)
