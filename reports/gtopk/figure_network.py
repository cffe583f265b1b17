"""Drawing of Figures 8 and 9: messages between two workers with their fit, and collectives over their closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.gtopk.experiments import DENSITY
from repro.reports.gtopk.frames_network import LEFT_BYTES, NEAR, curve
from repro.reports.gtopk.published import Published
from repro.reporting.stats import ALPHA, RHO

if TYPE_CHECKING:
    import pandas as pd

MARKS = {"measured": {"marker": "o", "fill": False}, "simulated": {"marker": "s", "fill": True}}
DRAWN = {"dense": "Dense", "topk": "Top-k", "gtopk": "gTop-k"}


def messages(found: pd.DataFrame, fits: pd.DataFrame, title: str) -> Any:
    """A panel a testbed: mean and deviation against bytes, the fitted line, the paper's line; values in the legend."""
    plt, sns = style.plotting()
    places = list(dict.fromkeys(zip(found["kind"], found["testbed"], strict=True)))
    figure, axes = plt.subplots(
        1, len(places), figsize=(max(7.0, 5.6 * len(places)), 4.8), squeeze=False, sharey=True, layout="constrained"
    )
    published = fits.iloc[0]
    for axis, (kind, testbed) in zip(axes[0], places, strict=True):
        own = found[(found["kind"] == kind) & (found["testbed"] == testbed)].sort_values("bytes")
        fit = fits[(fits["kind"] == kind) & (fits["network"] == testbed)].iloc[0]
        color = {"measured": "#9c2f02", "simulated": "#08478c"}[kind]
        label = f"{kind}, mean and deviation of {own['runs'].max()} runs"
        error = (1e3 * own["deviation_s"]).clip(upper=0.999e3 * own["mean_s"])
        axis.errorbar(own["bytes"], 1e3 * own["mean_s"], yerr=error, fmt="o", markersize=4.5, color=color, capsize=3,
                      linewidth=1, zorder=3, label=label)  # fmt: skip
        line = own.groupby("bytes")["fitted_s"].median()
        label = f"fit: {ALPHA} = {_plain(fit['alpha (ms)'])} ms, β = {_plain(fit['beta (ns a byte)'])} ns a byte"
        axis.plot(line.index, 1e3 * line, color=color, linewidth=1.4, zorder=2, label=label)
        label = f"paper: {ALPHA} = {published['alpha (ms)']} ms, β = {published['beta (ns a byte)']} ns a byte"
        axis.plot(own["bytes"], 1e3 * own["paper_s"], color="#777777", linestyle="--", linewidth=1.2, label=label)
        axis.set(xscale="log", yscale="log", xlabel="bytes of the message", title=f"{testbed} ({kind.upper()})")
        axis.legend(loc="upper left", fontsize=7.5)
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("time of a message (ms)")
    style.titled(figure, title)
    return figure


def _plain(text: str) -> str:
    return text.split(" [")[0]


def collectives(found: pd.DataFrame, paper: Published, title: str) -> Any:
    """Left: seconds against workers (100 MB); right: against the gradient's size. Lines: closed forms, marks: runs."""
    import numpy as np

    plt, sns = style.plotting()
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.4), layout="constrained")
    near = found[(found["bytes"] / LEFT_BYTES - 1).abs() < NEAR]
    most = max(128, int(near["ranks"].max()) if len(near) else 0)
    worlds = [2**i for i in range(1, most.bit_length())]
    sizes = list(np.geomspace(min(1e6, found["bytes"].min()), max(1e9, found["bytes"].max()), 40))
    for algorithm, name in DRAWN.items():
        look = style.look(name)
        left.plot(worlds, [1e3 * s for s in curve(algorithm, worlds, [LEFT_BYTES], DENSITY, paper)], linewidth=1.4,
                  color=look["color"])  # fmt: skip
        _marks(left, near[near["algorithm"] == name], "ranks", look["color"])
        for P, dashes in ((32, "-"), (64, ":")):
            seconds = [1e3 * s for s in curve(algorithm, [P], sizes, DENSITY, paper)]
            right.plot(sizes, seconds, linewidth=1.4, linestyle=dashes, color=look["color"])
            own = found[(found["algorithm"] == name) & (found["ranks"] == P)]
            _marks(right, own, "bytes", look["color"], size=6 if P == 32 else 4)
    left.set(xscale="log", yscale="log", xlabel="workers P", ylabel="time of the collective (ms)", xticks=worlds,
             title=f"m = 100 MB, {RHO} = 0.001")  # fmt: skip
    left.set_xticklabels(map(str, worlds))
    left.minorticks_off()
    right.set(xscale="log", yscale="log", xlabel="bytes of the gradient m", title=f"{RHO} = 0.001, P = 32 and P = 64")
    figure.legend(handles=_handles(found), loc="outside lower center", ncols=4)
    for axis in (left, right):
        sns.despine(ax=axis)
    style.titled(figure, title)
    return figure


def _marks(axis: Any, own: pd.DataFrame, x: str, color: str, size: float = 6) -> None:
    for kind, some in own.groupby("kind"):
        look = MARKS[kind]
        face = color if look["fill"] else "none"
        errors = [1e3 * (some["run_s"] - some["low_s"]), 1e3 * (some["high_s"] - some["run_s"])]
        axis.errorbar(some[x], 1e3 * some["run_s"], yerr=[e.clip(lower=0) for e in errors], fmt=look["marker"],
                      markersize=size + 3 * (not look["fill"]), color=color, markerfacecolor=face, linewidth=0.8,
                      zorder=4)  # fmt: skip


def _handles(found: pd.DataFrame) -> list:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=style.look(name)["color"], linewidth=1.6, label=name) for name in DRAWN.values()]
    handles.append(Line2D([], [], color="#555555", linewidth=1.4, label=f"closed form, published {ALPHA}, β (P = 32)"))
    handles.append(Line2D([], [], color="#555555", linewidth=1.4, linestyle=":", label="the same, P = 64"))
    for kind in sorted(found["kind"].unique()):
        look, places = MARKS[kind], ", ".join(dict.fromkeys(found[found["kind"] == kind]["testbed"]))
        handles.append(Line2D([], [], color="#555555", marker=look["marker"], linestyle="none",
                              markerfacecolor="#555555" if look["fill"] else "white",
                              label=f"run, {kind.upper()}: {places}"))  # fmt: skip
    return handles
