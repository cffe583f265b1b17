"""Drawing of greedy against exact (clusters, random profiles), predicted against executed time, and measured runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.batched_pulls import MODES, NETWORKS
from repro.reports.ibatch.figure_scaling import NAMES
from repro.reporting.stats import number

if TYPE_CHECKING:
    import pandas as pd

FAMILIES = (("#3b6fb6", "o"), ("#d08c1d", "^"), ("#2f8f5b", "s"), ("#8a3f8f", "D"))
LOOKS = dict(zip(NETWORKS.values(), FAMILIES, strict=True))
OTHER = ("#666666", "v")


def clusters(found: pd.DataFrame, title: str) -> Any:
    """A panel a testbed: gap of greedy's executed time to the least possible (%), against nodes, a line a network."""
    from matplotlib.lines import Line2D

    plt, sns = style.plotting()
    testbeds = list(dict.fromkeys(found["testbed"]))
    figure, axes = plt.subplots(1, len(testbeds), figsize=(max(6.5, 5 * len(testbeds)), 4.2), sharey=True,
                                squeeze=False, layout="constrained")  # fmt: skip
    for axis, testbed in zip(axes[0], testbeds, strict=True):
        for network, own in found[found["testbed"] == testbed].groupby("network", sort=False):
            color, marker = LOOKS.get(network, OTHER)
            own = own.sort_values("nodes")
            axis.plot(own["nodes"], 100 * own["gap"], color=color, marker=marker, markersize=5.5, linewidth=1.4,
                      markeredgecolor="white", markeredgewidth=0.5, clip_on=False)  # fmt: skip
        axis.set(title=testbed, xlabel="nodes", xlim=(0, None))
        axis.set_xticks(sorted(set(found["nodes"])))
        sns.despine(ax=axis)
    top = 100 * found["gap"].max()
    axes[0, 0].set_ylim(-0.03 * max(top, 1), 1.1 * max(top, 1))
    axes[0, 0].set_ylabel("executed time over the least possible, less 1 (%)")
    names = list(dict.fromkeys(found["network"]))
    handles = [Line2D([], [], color=LOOKS.get(n, OTHER)[0], marker=LOOKS.get(n, OTHER)[1], markeredgecolor="white",
                      linewidth=1.4, label=n) for n in names]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    style.titled(figure, title)
    return figure


def random(found: pd.DataFrame, title: str) -> Any:
    """A column a startup time: share of optimal decisions (above) and the 95th percentile of the gap (below)."""
    from matplotlib.lines import Line2D

    plt, sns = style.plotting()
    own = found[(found["mode"] == "greedy") & (found["seed"] == found["seed"].min())]
    startups, families = sorted(own["startup"].unique()), list(dict.fromkeys(own["family"]))
    layers = sorted(own["layers"].unique())
    figure, axes = plt.subplots(2, len(startups), figsize=(max(6.5, 3.3 * len(startups)), 6.2), sharex=True,
                                sharey="row", squeeze=False, layout="constrained")  # fmt: skip
    for column, startup in enumerate(startups):
        for place, family in enumerate(families):
            color, marker = FAMILIES[place % len(FAMILIES)]
            at = own[(own["startup"] == startup) & (own["family"] == family)].sort_values("layers")
            for axis, value in ((axes[0, column], "optimal"), (axes[1, column], "p95")):
                axis.plot(at["layers"], 100 * at[value], color=color, marker=marker, markersize=5, linewidth=1.4,
                          markeredgecolor="white", markeredgewidth=0.5)  # fmt: skip
        axes[0, column].set(title=f"startup {startup:g} times the\nmean transfer", ylim=(-3, 104))
        axes[1, column].set(xlabel="layers")
        axes[1, column].set_xticks(layers, [str(n) for n in layers])
        for axis in axes[:, column]:
            sns.despine(ax=axis)
    axes[0, 0].set_ylabel("greedy is optimal (% of profiles)")
    axes[1, 0].set_ylabel("gap, 95th percentile (%)")
    looks = [FAMILIES[i % len(FAMILIES)] for i in range(len(families))]
    handles = [Line2D([], [], color=color, marker=marker, markeredgecolor="white", linewidth=1.4, label=name)
               for (color, marker), name in zip(looks, families, strict=True)]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    style.titled(figure, title)
    return figure


def predictions(found: pd.DataFrame, title: str) -> Any:
    """Observed end of the forward pass against the pipeline model's; filled: simulated, open: measured."""
    from matplotlib.lines import Line2D

    plt, sns = style.plotting()
    figure, axis = plt.subplots(figsize=(6.8, 6.2), layout="constrained")
    low = 0.8 * 1e3 * min(found["predicted_s"].min(), found["observed_s"].min())
    high = 1.25 * 1e3 * max(found["predicted_s"].max(), found["observed_s"].max())
    axis.plot([low, high], [low, high], color="#777777", linewidth=0.9, zorder=1)
    for (kind, mode), own in found.groupby(["kind", "mode"], sort=False):
        look = style.look(mode)
        axis.scatter(1e3 * own["predicted_s"], 1e3 * own["observed_s"], marker=look["marker"], s=34, linewidth=1.1,
                     facecolor="none" if kind == "measured" else look["color"], edgecolor=look["color"], alpha=0.85,
                     zorder=3)  # fmt: skip
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high),
             xlabel="executed time, predicted by the pipeline model from the profile (ms)",
             ylabel="end of the forward pass, observed (ms)")  # fmt: skip
    axis.set_aspect("equal")
    sns.despine(ax=axis)
    modes = [mode for mode in NAMES if (found["mode"] == mode).any()]
    handles = [Line2D([], [], linestyle="none", marker=style.look(mode)["marker"], color=style.look(mode)["color"],
                      label=NAMES[mode]) for mode in modes]  # fmt: skip
    faces = {"simulated": "#555555", "measured": "none"}
    handles += [Line2D([], [], linestyle="none", marker="o", markerfacecolor=faces[kind], markeredgecolor="#555555",
                       label=f"{kind.upper()} ({'open' if kind == 'measured' else 'filled'})")
                for kind in faces if (found["kind"] == kind).any()]  # fmt: skip
    handles.append(Line2D([], [], color="#777777", linewidth=0.9, label="equal"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    style.titled(figure, title)
    return figure


def measured(panels: Mapping[str, pd.DataFrame], title: str) -> Any:
    """A panel a place: milliseconds an iteration by number of workers, a bar a mode; lines: the seeds' interval."""
    from matplotlib.patches import Patch

    plt, sns = style.plotting()
    figure, axes = plt.subplots(1, len(panels), figsize=(max(6.5, 5.2 * len(panels)), 4.3), squeeze=False,
                                layout="constrained")  # fmt: skip
    there = [mode for mode in MODES if any((own["mode"] == mode).any() for own in panels.values())]
    width = 0.84 / len(there)
    for axis, (name, found) in zip(axes[0], panels.items(), strict=True):
        sizes = sorted(found["workers"].unique())
        for place, workers in enumerate(sizes):
            for i, mode in enumerate(there):
                own = found[(found["workers"] == workers) & (found["mode"] == mode)]
                if not len(own) or math.isnan(own["iteration_ms"].iloc[0]):
                    continue
                x, line = place - 0.42 + (i + 0.5) * width, own.iloc[0]
                axis.bar(x, line["iteration_ms"], 0.94 * width, color=style.look(mode)["color"], edgecolor="white",
                         linewidth=0.5)  # fmt: skip
                if line["high_ms"] > line["low_ms"]:
                    axis.plot([x, x], [line["low_ms"], line["high_ms"]], color="#333333", linewidth=1.1)
                axis.annotate(number(line["iteration_ms"]), (x, max(line["high_ms"], line["iteration_ms"])),
                              xytext=(0, 3), textcoords="offset points", ha="center", fontsize=7.2)  # fmt: skip
        axis.set_xticks(range(len(sizes)), [f"{n} workers" for n in sizes])
        axis.set(title=name if len(panels) > 1 else "", xlim=(-0.6, len(sizes) - 0.4))
        axis.set_ylabel("milliseconds an iteration")
        axis.tick_params(axis="x", length=0)
        axis.margins(y=0.14)
        axis.grid(False, axis="x")
        sns.despine(ax=axis)
    figure.legend(handles=[Patch(color=style.look(mode)["color"], label=NAMES[mode]) for mode in there],
                  loc="outside lower center", ncols=len(there))  # fmt: skip
    style.titled(figure, title)
    return figure
