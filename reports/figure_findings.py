"""Drawing of the findings: the spectrum of K, compression of gradients and parameters, convergence rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reporting.stats import spread
from repro.reports import frames_findings, style

if TYPE_CHECKING:
    import pandas as pd

PLAIN = {"color": "#9c2f02", "marker": "o", "label": "constant learning rate"}
STALENESS = {"color": "#2a7f62", "marker": "D", "label": "staleness-aware learning rate"}
WHAT = {"gradients": {"color": "#08478c", "marker": "o"}, "parameters": {"color": "#b8488f", "marker": "s"}}


def spectrum(found: pd.DataFrame, metric: str, title: str) -> Any:
    """Step time, final metric and time to the highest target that any run reached, against K; every seed, medians."""
    import numpy as np

    plt, sns = style.plotting()
    reached = [name for name in frames_findings.goals(found) if np.isfinite(found[name]).any()]
    panels = [("step_ms", "median step time (ms)"), ("metric", f"final {style.metric_name(metric)}")]
    panels += [(name, f"training time {name}") for name in reached[-1:]]
    panels = [(name, label) for name, label in panels if found[name].notna().any()]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.4 * len(panels) + 0.6, 4.1), squeeze=False, layout="constrained"
    )
    for axis, (name, label) in zip(axes[0], panels, strict=True):
        for staleness, look in ((False, PLAIN), (True, STALENESS)):
            own = found[(found["staleness_lr"] == staleness) & np.isfinite(found[name])]
            if len(own):
                middle = own.groupby("K")[name].median()
                axis.plot(middle.index, middle, color=look["color"], linewidth=1.3, zorder=2)
                axis.scatter(own["K"], own[name], s=24, alpha=0.8, edgecolor="white", linewidth=0.4, zorder=3, **look)
        axis.axvline(2, color="#777777", linestyle="--", linewidth=0.8, zorder=0)
        axis.set(xlabel="iteration dependency K", ylabel=label, xticks=sorted(found["K"].unique()))
        if name != "metric":
            axis.set_ylim(0, None)
        sns.despine(ax=axis)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    style.titled(figure, title)
    return figure


def lossy(found: pd.DataFrame, metric: str, title: str) -> Any:
    """Final metric by codec, gradients beside parameters: every seed, the median, its interval."""
    plt, sns = style.plotting()
    figure, axis = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    codecs = [name for name in ("none", "T", "Q") if name in set(found["codec"])]
    for i, (what, look) in enumerate(WHAT.items()):
        own = found[found["communicated"] == what]
        at = [(codecs.index(codec) + (i - 0.5) * 0.22, spread(some["metric"])) for codec, some in own.groupby("codec")]
        errors = [[s.median - s.low for _, s in at], [s.high - s.median for _, s in at]]
        axis.errorbar([x for x, _ in at], [s.median for _, s in at], yerr=errors, fmt=look["marker"], markersize=8,
                      color=look["color"], capsize=3, linewidth=1, label=what, zorder=3)  # fmt: skip
        places = [codecs.index(codec) + (i - 0.5) * 0.22 + 0.06 for codec in own["codec"]]
        axis.scatter(places, own["metric"], s=10, alpha=0.5, color=look["color"], linewidth=0, zorder=2)
    axis.set_xticks(range(len(codecs)), [{"none": "no compression", "T": "T (16-bit truncation)",
                                          "Q": "Q (8-bit quantization)"}[codec] for codec in codecs])  # fmt: skip
    axis.set(ylabel=f"final {style.metric_name(metric)} on the test set", xlim=(-0.5, len(codecs) - 0.5))
    axis.grid(False, axis="x")
    figure.legend(title="communicated", loc="outside lower center", ncols=2)
    sns.despine(ax=axis)
    style.titled(figure, title)
    return figure


def rates(found: pd.DataFrame, slopes: pd.DataFrame, title: str) -> Any:
    """Regret (or suboptimality) against T, log-log, a panel an objective, a colour a K; dashed: the stated bound."""
    from matplotlib.lines import Line2D

    plt, sns = style.plotting()
    objectives = list(found["objective"].unique())
    figure, axes = plt.subplots(
        1, len(objectives), figsize=(6.2 * len(objectives) + 0.8, 4.8), squeeze=False, layout="constrained"
    )
    every = sorted(found["K"].unique())
    colours = dict(zip(every, sns.color_palette("viridis", len(every) + 1), strict=False))
    for axis, objective in zip(axes[0], objectives, strict=True):
        for K, own in found[(found["objective"] == objective) & (found["regret"] > 0)].groupby("K"):
            at = own.groupby("t")["regret"]
            slope = slopes[(slopes["objective"] == objective) & (slopes["K"] == str(K))]["slope, log-log"].iloc[0]
            axis.plot(at.median().index, at.median(), color=colours[K], linewidth=1.6, marker="o", markersize=3,
                      label=f"K = {K}, slope {slope.split(' [')[0]}", zorder=3)  # fmt: skip
            axis.fill_between(at.min().index, at.min(), at.max(), color=colours[K], alpha=0.15, linewidth=0)
            bound = own.dropna(subset=["bound"]).groupby("t")["bound"].median()
            axis.plot(bound.index, bound, color=colours[K], linestyle="--", linewidth=1, zorder=2)
        axis.set(xscale="log", yscale="log", xlabel="T (iterations)", title=f"{objective} objective")
        handles, _ = axis.get_legend_handles_labels()
        axis.legend(
            handles=[*handles, Line2D([], [], color="#555555", linestyle="--", label="stated bound")], loc="best"
        )
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("average regret, or suboptimality")
    style.titled(figure, title)
    return figure
