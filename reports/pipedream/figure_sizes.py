"""Drawing of Figure 1 (overheads), Figure 5 (layer outputs), and of configurations over bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import style

if TYPE_CHECKING:
    import pandas as pd

DEVICES = {"K80 (Kepler)": ("#9bb8a5", "o"), "Titan X (Pascal)": ("#4d8c66", "s"), "V100 (Volta)": ("#123f27", "^")}
OTHER = ("#7b4fa3", "D")


def overheads(found: pd.DataFrame, title: str) -> Any:
    """A panel a model: communication overhead in percent against workers, a line a GPU."""
    from matplotlib.lines import Line2D

    plt, sns = style.plotting()
    models = list(dict.fromkeys(found["model"]))
    workers = sorted(found["workers"].unique())
    figure, axes = plt.subplots(1, len(models), figsize=(max(6.5, 2.9 * len(models)), 3.9), sharey=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    devices = list(dict.fromkeys(found["device"]))
    for axis, model in zip(axes[0], models, strict=True):
        for device in devices:
            own = found[(found["model"] == model) & (found["device"] == device)].sort_values("workers")
            color, marker = DEVICES.get(device, OTHER)
            axis.plot(own["workers"], 100 * own["overhead"], color=color, marker=marker, markersize=5.5, linewidth=1.5,
                      markeredgecolor="white", markeredgewidth=0.5)  # fmt: skip
        axis.set(title=model, xscale="log", xticks=workers, ylim=(-2, 102), xlabel="workers")
        axis.set_xticklabels(map(str, workers))
        axis.minorticks_off()
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("communication overhead\n(% of the time of a step)")
    handles = [Line2D([], [], color=DEVICES.get(d, OTHER)[0], marker=DEVICES.get(d, OTHER)[1], markeredgecolor="white",
                      linewidth=1.6, label=d) for d in devices]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    style.titled(figure, title)
    return figure


def layers(found: pd.DataFrame, total_mb: float, paper_mb: float, title: str) -> Any:
    """Bars of each layer's output, the size of all parameters as a line."""
    plt, sns = style.plotting()
    figure, axis = plt.subplots(figsize=(max(8, 0.55 * len(found)), 4.2), layout="constrained")
    axis.bar(range(len(found)), found["output_mb"], 0.76, color="#3d8bd1", label="output of the layer, minibatch 32")
    axis.plot(range(len(found)), found["parameters_mb"], linestyle="none", marker="_", markersize=11, color="#a4197d",
              markeredgewidth=2, label="parameters of the layer")  # fmt: skip
    axis.axhline(total_mb, color="#222222", linestyle=":", linewidth=1.6, label=f"all parameters: {total_mb:.0f} MB")
    axis.axhline(paper_mb, color="#999999", linestyle="--", linewidth=1, label=f"PAPER: {paper_mb:.0f} MB")
    axis.axhline(0.1 * total_mb, color="#222222", linewidth=0.6, label="a tenth of them")
    axis.set_xticks(range(len(found)), found["layer"], rotation=40, ha="right")
    axis.set(ylabel="MB", xlim=(-0.6, len(found) - 0.4))
    axis.grid(False, axis="x")
    axis.legend(loc="center left", bbox_to_anchor=(0.36, 0.62))
    sns.despine(ax=axis)
    style.titled(figure, title)
    return figure


def what_if(found: pd.DataFrame, title: str) -> Any:
    """A panel a cost model, model and cluster: predicted speed-up over one machine against bandwidth, and BSP's."""
    plt, sns = style.plotting()
    panels = list(found.groupby(["cost_model", "model", "machines"], sort=False))
    figure, axes = plt.subplots(1, len(panels), figsize=(max(7, 4.9 * len(panels)), 4.6), sharey=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    for axis, ((name, model, machines), own) in zip(axes[0], panels, strict=True):
        own = own.sort_values("gbit")
        bsp = own["speedup_single"] / own["speedup_bsp"]
        look, base = style.look("pipedream"), style.look("bsp")
        axis.plot(own["gbit"], own["speedup_single"], color=look["color"], marker=look["marker"], markersize=5.5,
                  linewidth=1.6, label="best configuration")  # fmt: skip
        axis.plot(own["gbit"], bsp, color=base["color"], marker=base["marker"], markersize=5, linewidth=1.4,
                  label="data parallelism")  # fmt: skip
        last = None
        for line in own.to_dict("records"):
            if line["config"] != last:
                axis.annotate(line["config"], (line["gbit"], line["speedup_single"]), xytext=(0, 7), ha="center",
                              textcoords="offset points", fontsize=7.5, rotation=90, va="bottom")  # fmt: skip
            last = line["config"]
        axis.axhline(1, color="#888888", linewidth=0.7)
        axis.set(title=f"{model} on {machines} machines, cost model: {name}", xscale="log", xlabel="bandwidth (Gbit/s)")
        axis.set_xticks([1, 2, 5, 10, 25, 50, 100], ["1", "2", "5", "10", "25", "50", "100"])
        axis.minorticks_off()
        axis.set_ylim(0, 1.3 * found["speedup_single"].max())
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("predicted speed-up over one machine")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    style.titled(figure, title)
    return figure
