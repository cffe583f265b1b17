"""Drawing of Figures 10 and 11, and of Table VII beside model and simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.gtopk.published import MOST
from repro.reports.scaling import ALGORITHMS, MODELS, PARTS

if TYPE_CHECKING:
    import pandas as pd

PART_COLOURS = {"computation": "#6fae85", "compression": style.PHASE_COLOURS["compress"],
                "communication": style.PHASE_COLOURS["communicate"]}  # fmt: skip


def scaling(found: pd.DataFrame, title: str) -> Any:
    """Efficiency (4), above, and speed-up over one worker, below, against workers; a column a model."""
    plt, sns = style.plotting()
    figure, axes = plt.subplots(2, len(MODELS), figsize=(15, 7), sharex=True, layout="constrained")
    worlds = sorted(found["workers"].unique())
    floor = 0.8 * min(0.6, float(found["speedup"].min()))
    for column, model in enumerate(MODELS):
        own = found[found["model"] == model]
        top, below = axes[0, column], axes[1, column]
        for axis, value, scale in ((top, "efficiency", 100), (below, "speedup", 1)):
            for algorithm in ALGORITHMS:
                _lines(axis, own[own["algorithm"] == algorithm], value, scale, style.look(algorithm))
        top.axhline(100, color="#777777", linewidth=0.8, zorder=0)
        below.plot(worlds, worlds, color="#777777", linewidth=0.8, zorder=0)
        top.set(title=model, ylim=(0, 108), xscale="log", xticks=worlds)
        below.set(xlabel="workers", yscale="log", xticks=worlds, yticks=worlds, ylim=(floor, 1.3 * max(worlds)))
        below.set_xticklabels(map(str, worlds))
        below.set_yticklabels(map(str, worlds))
        for axis in (top, below):
            axis.minorticks_off()
            sns.despine(ax=axis)
    axes[0, 0].set_ylabel("scaling efficiency (%)")
    axes[1, 0].set_ylabel("speed-up over one worker")
    figure.legend(handles=_handles(found), loc="outside lower center", ncols=6)
    style.titled(figure, title)
    return figure


def _lines(axis: Any, own: pd.DataFrame, value: str, scale: float, look: dict[str, Any]) -> None:
    looks = {
        "simulated": {"linestyle": "-", "linewidth": 1.6, "marker": look["marker"], "markersize": 6,
                      "markeredgecolor": "white", "markeredgewidth": 0.5, "zorder": 4},
        "time model": {"linestyle": "--", "linewidth": 1.0, "zorder": 3},
    }  # fmt: skip
    for source, drawn in looks.items():
        at = own[own["source"] == source].sort_values("workers")
        if len(at):
            axis.plot(at["workers"], scale * at[value], color=look["color"], **drawn)
    at = own[(own["source"] == "paper") & (own["workers"] == MOST)]
    axis.plot(at["workers"], scale * at[value], color=look["color"], linestyle="none", marker="*", markersize=12,
              markeredgecolor="black", markeredgewidth=0.6, zorder=5, clip_on=False)  # fmt: skip


def _handles(found: pd.DataFrame) -> list:
    from matplotlib.lines import Line2D

    handles = []
    for name in ALGORITHMS:
        look = style.look(name)
        handles.append(Line2D([], [], color=look["color"], marker=look["marker"], label=name, linewidth=1.6))
    if (found["source"] == "simulated").any():
        handles.append(Line2D([], [], color="#555555", marker="o", linewidth=1.6, label="SIMULATED"))
    handles.append(Line2D([], [], color="#555555", linestyle="--", linewidth=1, label="time model: Tables I and VI"))
    handles.append(Line2D([], [], color="white", marker="*", markersize=12, markeredgecolor="black",
                          label="PAPER: Tables VII and VI"))  # fmt: skip
    return handles


def breakdown(found: pd.DataFrame, title: str) -> Any:
    """Stacked seconds of an iteration, a panel a model, a bar an algorithm."""
    plt, sns = style.plotting()
    models = list(dict.fromkeys(found["model"]))
    figure, axes = plt.subplots(
        1, len(models), figsize=(max(7, 3.5 * len(models)), 4.6), squeeze=False, layout="constrained"
    )
    for axis, model in zip(axes[0], models, strict=True):
        own = found[found["model"] == model]
        places, bottom = range(len(own)), [0.0] * len(own)
        for name in PARTS:
            heights = own[name].tolist()
            axis.bar(places, heights, 0.6, bottom, color=PART_COLOURS[name], edgecolor="white", linewidth=0.4,
                     label=name)  # fmt: skip
            bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
        for place, height in zip(places, bottom, strict=True):
            axis.annotate(f"{height:.3g} s", (place, height), xytext=(0, 3), textcoords="offset points", ha="center",
                          fontsize=8)  # fmt: skip
        axis.set(title=model, ylim=(0, 1.1 * max([*bottom, 1e-9])))
        axis.set_xticks(list(places), own["algorithm"].tolist())
        axis.grid(False, axis="x")
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("seconds an iteration")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    style.titled(figure, title)
    return figure


SOURCES = {
    "paper": ("PAPER, Table VII", {"marker": "*", "s": 130, "edgecolor": "black", "linewidth": 0.6}),
    "time_model": ("time model: Tables I and VI", {"marker": "o", "s": 55, "facecolor": "none", "linewidth": 1.4}),
    "simulated": ("SIMULATED", {"marker": "s", "s": 40, "edgecolor": "white", "linewidth": 0.5}),
}


def throughputs(found: pd.DataFrame, title: str) -> Any:
    """Images a second with 32 workers, a row a model and algorithm, a mark a source."""
    from matplotlib.lines import Line2D

    plt, sns = style.plotting()
    figure, axis = plt.subplots(figsize=(9.5, 5.6), layout="constrained")
    names = [f"{model}, {algorithm}" for model, algorithm in zip(found["model"], found["algorithm"], strict=True)]
    places = [-(i + 0.8 * (i // len(ALGORITHMS))) for i in range(len(found))]
    colours = [style.look(algorithm)["color"] for algorithm in found["algorithm"]]
    shown = [name for name in SOURCES if found[name].notna().any()]
    for place, line in zip(places, found[shown].to_dict("records"), strict=True):
        values = [value for value in line.values() if value == value and value is not None]
        axis.plot([min(values), max(values)], [place, place], color="#c8c8c8", linewidth=1.4, zorder=1)
    for name in shown:
        look = dict(SOURCES[name][1])
        if look.get("facecolor") == "none":
            look |= {"edgecolor": colours}
        else:
            look |= {"color": None, "c": colours}
            look.pop("color")
        axis.scatter(found[name].astype(float), places, zorder=3, **look)
    axis.set(xscale="log", xlabel="images a second, 32 workers")
    axis.set_yticks(places, names)
    handles = [
        Line2D([], [], linestyle="none", marker=SOURCES[name][1]["marker"], color="#555555", label=SOURCES[name][0],
               markerfacecolor="none" if name == "time_model" else "#555555", markersize=11 if name == "paper" else 7)
        for name in shown
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    axis.grid(False, axis="y")
    sns.despine(ax=axis)
    style.titled(figure, title)
    return figure
