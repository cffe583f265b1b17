"""Drawing of throughput (Figures 10 and 11, top) and of learning curves (Figures 10, 12 and 13)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repro.reports import curves, style
from repro.reporting.stats import TIMES, number

if TYPE_CHECKING:
    import pandas as pd


def bars(found: Mapping[str, pd.DataFrame], title: str) -> Any:
    """Steps a second, a panel a source; bars by delay and strategy; speed-ups, ours and the paper's."""
    plt, sns = style.plotting()
    columns = min(2, len(found))
    rows = math.ceil(len(found) / columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(7.4 * columns, 3.9 * rows + 0.7), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(found) :]:
        axis.set_axis_off()
    for axis, (name, own) in zip(axes.flat, found.items(), strict=False):
        place, ticks = 0.0, []
        for delay in dict.fromkeys(own["delay"]):
            some = own[own["delay"] == delay].to_dict("records")
            for line in some:
                _bar(axis, place, line)
                place += 1
            ticks.append((place - (len(some) + 1) / 2, delay))
            place += 0.6
        axis.set_xticks([at for at, _ in ticks], [f"{delay} injected" if delay else "" for _, delay in ticks])
        axis.set(title=name, ylim=(0, 1.26 * float(own["high"].max())), ylabel="steps a second")
        axis.tick_params(axis="x", length=0)
        axis.grid(False, axis="x")
        sns.despine(ax=axis)
    strategies = list(dict.fromkeys(name for own in found.values() for name in own["strategy"]))
    figure.legend(handles=_patches(strategies), loc="outside lower center", ncols=2 * columns)
    style.titled(figure, title)
    return figure


def _bar(axis: Any, place: float, line: Mapping[str, Any]) -> None:
    height = line["steps_per_second"]
    axis.bar(place, height, 0.86, color=style.look(line["strategy"])["color"], edgecolor="white", linewidth=0.5)
    if line["high"] > line["low"]:
        axis.plot([place, place], [line["low"], line["high"]], color="#333333", linewidth=1.1)
    text = number(height)
    if line["speedup"] == line["speedup"] and line["speedup"] is not None:
        text = f"{line['speedup']:.2f}{TIMES}\n{text}"
    if line["paper_speedup"] == line["paper_speedup"] and line["paper_speedup"] is not None:
        text = f"PAPER {line['paper_speedup']:.2f}{TIMES}\n{text}"
    axis.annotate(text, (place, line["high"]), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=7.5)


def _patches(strategies: list[str]) -> list:
    from matplotlib.patches import Patch

    return [Patch(color=style.look(name)["color"], label=name) for name in strategies]


def learning(
    points: pd.DataFrame, metric: str, more: tuple[str, ...], title: str, of: Mapping[str, tuple[str, str]]
) -> Any:
    """Metric against time and against epochs, then the scores `more` against time; or a panel a delay."""
    name, log = f"{style.metric_name(metric)} on the test set", metric in curves.FALLING
    looks = {variant: method for variant, (method, _) in of.items()}
    by_delay: dict[str, list[str]] = {}
    for variant in points["setting"].unique():
        by_delay.setdefault(of[variant][1], []).append(variant)
    if len(by_delay) > 1:
        panels = [
            curves.Panel("metric", "train_s", name, f"{delay} injected" if delay else "no delay", tuple(own), log)
            for delay, own in by_delay.items()
        ]
        return curves.draw(points, panels, title, looks)
    panels = [
        curves.Panel("metric", "train_s", name, "against time", log=log),
        curves.Panel("metric", "epoch", name, "against epochs", log=log),
        *(curves.Panel(score, "train_s", style.metric_name(score), "against time") for score in more),
    ]
    return curves.draw(points, panels, title, looks)
