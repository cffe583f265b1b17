"""Drawing of Figures 5 and 6 (speed-up against nodes), Figure 7 (stacked bars), and of what goes beyond the paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.batched_pulls import MODES
from repro.reports.curves import dashes
from repro.reports.ibatch.frames_scaling import PARTS
from repro.reporting.stats import TIMES, number

if TYPE_CHECKING:
    import pandas as pd

NAMES = {"default": "default", "layerwise": "layer by layer", "ibatch": "iBatch", "exact": "exact"}
COLOURS = {"overlap_s": "#8a6fa8", "communication_s": style.PHASE_COLOURS["communicate"],
           "computation_s": style.PHASE_COLOURS["backward"]}  # fmt: skip

PUSHES = {
    "after": "pushes after\nthe backward pass",
    "layerwise": "pushes\nlayer by layer",
    "batches": "pushes in the\npulls' batches",
    "vector": "pushes after, placement:\nequal parts of the vector",
}


def speedups(found: pd.DataFrame, title: str, single: bool = True) -> Any:
    """A panel a network: speed-up against nodes, a line a mode; open markers: printed; a thin line: the ideal.

    single: is there a single node's time of every network? It belongs to the lines as their first point.
    """
    plt, sns = style.plotting()
    networks = list(dict.fromkeys(found["network"]))
    columns = min(2, len(networks))
    rows = math.ceil(len(networks) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(max(6.5, 4.5 * columns), 0.7 + 4.1 * rows), squeeze=False,
                                layout="constrained")  # fmt: skip
    most = int(found["nodes"].max())
    for axis, network in zip(axes.flat, networks, strict=False):
        axis.plot([0, most], [0, most], color="#777777", linewidth=0.9, zorder=1)
        for mode in MODES:
            own = found[(found["network"] == network) & (found["mode"] == mode)].sort_values("nodes")
            _line(axis, own, mode, single)
        axis.set(title=network, xlabel="nodes", xlim=(0, 1.04 * most), ylim=(0, 1.06 * most))
        ticks = sorted({1, *found["nodes"]})
        axis.set_xticks(ticks, [str(n) for n in ticks])
        axis.set_yticks(ticks, [str(n) for n in ticks])
        axis.set_aspect("equal")
        sns.despine(ax=axis)
    for axis in list(axes.flat)[len(networks) :]:
        axis.set_axis_off()
    for row in axes:
        row[0].set_ylabel("speed-up over a single node")
    figure.legend(handles=_handles(found), loc="outside lower center", ncols=5)
    style.titled(figure, title)
    return figure


def _line(axis: Any, own: pd.DataFrame, mode: str, single: bool) -> None:
    look = style.look(mode)
    known = own.dropna(subset=["speedup"])
    x, y = list(known["nodes"]), list(known["speedup"])
    if x:
        first = ([1], [1.0]) if single and x[0] > 1 else ([], [])
        axis.plot(first[0] + x, first[1] + y, color=look["color"], linewidth=1.6, linestyle=dashes(look), zorder=3)
        axis.plot(x, y, linestyle="none", marker=look["marker"], color=look["color"], markersize=5.5,
                  markeredgecolor="white", markeredgewidth=0.5, zorder=4)  # fmt: skip
    printed = own.dropna(subset=["paper"])
    axis.plot(printed["nodes"], printed["paper"], linestyle="none", marker=look["marker"], markersize=9,
              markerfacecolor="none", markeredgecolor=look["color"], markeredgewidth=1.5, zorder=5)  # fmt: skip


def _handles(found: pd.DataFrame) -> list:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style.look(mode)["color"], marker=style.look(mode)["marker"], markeredgecolor="white",
               linewidth=1.6, linestyle=dashes(style.look(mode)), label=NAMES[mode])
        for mode in MODES if (found["mode"] == mode).any()
    ]  # fmt: skip
    handles.append(Line2D([], [], color="#777777", linewidth=0.9, label="ideal"))
    if found["paper"].notna().any():
        handles.append(Line2D([], [], linestyle="none", marker="s", markersize=8, markerfacecolor="none",
                              markeredgecolor="#444444", label="PAPER (open markers)"))  # fmt: skip
    return handles


def decomposed(found: pd.DataFrame, title: str) -> Any:
    """Figure 7: a panel a network, a stacked bar a mode, normalised; above it its seconds."""
    from matplotlib.patches import Patch

    plt, sns = style.plotting()
    networks = list(dict.fromkeys(found["network"]))
    figure, axes = plt.subplots(1, len(networks), figsize=(max(6.5, 4.6 * len(networks)), 4.4), sharey=True,
                                squeeze=False, layout="constrained")  # fmt: skip
    for axis, network in zip(axes[0], networks, strict=True):
        own = found[found["network"] == network]
        for place, line in enumerate(own.to_dict("records")):
            bottom, scale = 0.0, line["normalised"] / line["total_s"] if line["total_s"] else 0.0
            for part in PARTS:
                axis.bar(place, scale * line[part], 0.62, bottom=bottom, color=COLOURS[part], edgecolor="white",
                         linewidth=0.5)  # fmt: skip
                bottom += scale * line[part]
            axis.annotate(f"{number(line['total_s'])} s", (place, bottom), xytext=(0, 3), textcoords="offset points",
                          ha="center", fontsize=8)  # fmt: skip
        axis.set_xticks(range(len(own)), [NAMES[mode] for mode in own["mode"]])
        axis.set(title=network, xlim=(-0.6, len(own) - 0.4))
        axis.tick_params(axis="x", length=0)
        axis.margins(y=0.12)
        axis.grid(False, axis="x")
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("pulls and forward pass, default = 1")
    figure.legend(handles=[Patch(color=COLOURS[part], label=name) for part, name in PARTS.items()],
                  loc="outside lower center", ncols=3)  # fmt: skip
    style.titled(figure, title)
    return figure


def beyond(found: pd.DataFrame, title: str) -> Any:
    """Seconds an iteration: a group of bars a kind of push or placement, a bar a mode."""
    from matplotlib.patches import Patch

    plt, sns = style.plotting()
    kinds = list(dict.fromkeys(found["push"]))
    modes = [mode for mode in NAMES if (found["mode"] == mode).any()]
    figure, axis = plt.subplots(figsize=(max(7.5, 2.4 * len(kinds)), 4.3), layout="constrained")
    width = 0.84 / len(modes)
    for place, kind in enumerate(kinds):
        for i, mode in enumerate(modes):
            own = found[(found["push"] == kind) & (found["mode"] == mode)]
            if not len(own):
                continue
            x, line = place - 0.42 + (i + 0.5) * width, own.iloc[0]
            axis.bar(x, line["iteration_s"], 0.94 * width, color=style.look(mode)["color"], edgecolor="white",
                     linewidth=0.5)  # fmt: skip
            over = "" if math.isnan(line["over_default"]) else f"\n{number(line['over_default'])}{TIMES}"
            axis.annotate(f"{number(line['iteration_s'])} s{over}", (x, line["iteration_s"]), xytext=(0, 3),
                          textcoords="offset points", ha="center", fontsize=7.2)  # fmt: skip
    axis.set_xticks(range(len(kinds)), [PUSHES.get(kind, kind) for kind in kinds])
    axis.set(ylabel="seconds an iteration", xlim=(-0.6, len(kinds) - 0.4))
    axis.margins(y=0.18)
    axis.tick_params(axis="x", length=0)
    axis.grid(False, axis="x")
    sns.despine(ax=axis)
    handles = [Patch(color=style.look(mode)["color"], label=NAMES[mode]) for mode in modes]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    style.titled(figure, title)
    return figure
