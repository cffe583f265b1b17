"""Drawing of bars: Table 1, Figure 13, throughput measured here, and the memory of stages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.pipedream.frames_measured import PARTS
from repro.reporting.stats import TIMES, number

if TYPE_CHECKING:
    import pandas as pd

NAMES = {
    "bsp": "BSP",
    "pipedream": "PipeDream, configuration found",
    "paper-config": "PipeDream, configuration printed",
}
STAR = {"marker": "*", "markersize": 11, "markeredgecolor": "black", "markeredgewidth": 0.6, "linestyle": "none"}
PART_COLOURS = dict(zip(PARTS.values(), ("#357a56", "#a4197d", "#d99a00"), strict=True))


def table1(found: pd.DataFrame, title: str) -> Any:
    """Speed-up over one machine: bars a row of Table 1, ours; stars the paper's."""
    plt, sns = style.plotting()
    rows = list(dict.fromkeys(found["row"]))
    figure, axis = plt.subplots(figsize=(max(8, 1.65 * len(rows)), 4.6), layout="constrained")
    for place, row in enumerate(rows):
        own = found[(found["row"] == row) & (found["simulated"].notna() | found["paper"].notna())]
        own = own[(own["setting"] != "paper-config") | own["simulated"].notna()]
        width = 0.8 / max(1, len(own))
        for i, line in enumerate(own.to_dict("records")):
            x = place - 0.4 + (i + 0.5) * width
            _bar(axis, x, width, line["simulated"], line["setting"], line["configuration"], line["paper"])
            _star(axis, x, line["paper"])
        machines = own["machines"].iloc[0]
        axis.plot([place - 0.45, place + 0.45], [machines] * 2, color="#888888", linewidth=0.9, linestyle="--")
    axis.axhline(1, color="#888888", linewidth=0.7)
    axis.set_xticks(range(len(rows)), [row.replace(", ", "\n") for row in rows])
    axis.set(ylabel="speed-up over one machine", xlim=(-0.6, len(rows) - 0.4))
    axis.margins(y=0.16)
    axis.tick_params(axis="x", length=0)
    axis.grid(False, axis="x")
    sns.despine(ax=axis)
    names = [name for name in NAMES if found[found["setting"] == name]["simulated"].notna().any()]
    handles = [_patch(name, NAMES[name]) for name in names]
    figure.legend(handles=[*handles, *_marks("linear")], loc="outside lower center", ncols=3)
    style.titled(figure, title)
    return figure


def figure13(found: pd.DataFrame, title: str) -> Any:
    """A panel a number of machines: speed-up of the approaches over one machine; stars the paper's."""
    plt, sns = style.plotting()
    counts = sorted(found["machines"].unique())
    figure, axes = plt.subplots(1, len(counts), figsize=(5.4 * len(counts), 4.3), squeeze=False, layout="constrained",
                                sharey=True)  # fmt: skip
    for axis, machines in zip(axes[0], counts, strict=True):
        own = found[found["machines"] == machines].to_dict("records")
        for place, line in enumerate(own):
            _bar(axis, place, 0.74, line["simulated"], line["setting"], line["configuration"], line["paper"])
            _star(axis, place, line["paper"])
        axis.axhline(1, color="#888888", linewidth=0.7)
        axis.set_xticks(range(len(own)), [line["approach"].replace(" ", "\n", 1) for line in own])
        axis.set(title=f"{machines} machines", xlim=(-0.6, len(own) - 0.4))
        axis.tick_params(axis="x", length=0)
        axis.margins(y=0.16)
        axis.grid(False, axis="x")
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("speed-up over one machine")
    figure.legend(handles=_marks(), loc="outside lower center", ncols=2)
    style.titled(figure, title)
    return figure


def throughput(panels: Mapping[str, pd.DataFrame], title: str) -> Any:
    """A panel a place: samples a second over BSP's, a bar a variant, with the seeds' interval."""
    plt, sns = style.plotting()
    widest = max(len(own) for own in panels.values())
    figure, axes = plt.subplots(1, len(panels), figsize=(max(6.5, 0.85 * widest) * len(panels), 4.4), squeeze=False,
                                layout="constrained")  # fmt: skip
    for axis, (name, own) in zip(axes[0], panels.items(), strict=True):
        for place, line in enumerate(own.to_dict("records")):
            _bar(axis, place, 0.76, line["over_bsp"], line["setting"], line["configuration"], line["high"])
            if line["high"] > line["low"]:
                axis.plot([place, place], [line["low"], line["high"]], color="#333333", linewidth=1.1)
        axis.axhline(1, color="#888888", linewidth=0.7)
        axis.set_xticks(range(len(own)), [s.replace("-", "-\n", 1) for s in own["setting"]])
        axis.set(title=name if len(panels) > 1 else "", xlim=(-0.6, len(own) - 0.4))
        axis.set_ylabel("samples a second over BSP's")
        axis.tick_params(axis="x", length=0, labelsize=8)
        axis.margins(y=0.16)
        axis.grid(False, axis="x")
        sns.despine(ax=axis)
    style.titled(figure, title)
    return figure


def memory(found: pd.DataFrame, title: str) -> Any:
    """A panel a variant: stacked bars a stage, predicted (pale) beside observed; MB."""
    from matplotlib.patches import Patch

    plt, sns = style.plotting()
    variants = list(dict.fromkeys(found["setting"]))
    counts = [found[found["setting"] == name]["stage"].nunique() for name in variants]
    figure, axes = plt.subplots(1, len(variants), figsize=(min(18, max(6.5, 0.6 + 1.1 * sum(counts))), 4.2),
                                squeeze=False, layout="constrained", sharey=True,
                                gridspec_kw={"width_ratios": counts})  # fmt: skip
    for axis, variant in zip(axes[0], variants, strict=True):
        own = found[(found["setting"] == variant) & (found["replica"] == 1)].sort_values("stage")
        for place, line in enumerate(own.to_dict("records")):
            for shift, what, alpha in ((-0.2, "predicted", 0.45), (0.2, "observed", 1.0)):
                bottom = 0.0
                for part, color in PART_COLOURS.items():
                    value = line[f"{part}, {what} (MB)"]
                    if value == value:
                        axis.bar(place + shift, value, 0.36, bottom=bottom, color=color, alpha=alpha, linewidth=0)
                        bottom += value
        config = own["configuration"].iloc[0] if len(own) else ""
        axis.set_xticks(range(len(own)), [f"stage {stage}" for stage in own["stage"]])
        axis.set(title=f"{variant}\n{config}".strip(), xlim=(-0.6, len(own) - 0.4))
        axis.tick_params(axis="x", length=0)
        axis.grid(False, axis="x")
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("memory of a rank (MB)")
    handles = [Patch(color=color, label=part) for part, color in PART_COLOURS.items()]
    handles += [Patch(color="#999999", alpha=0.45, label="left, pale: predicted"),
                Patch(color="#999999", label="right: observed")]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=5)
    style.titled(figure, title)
    return figure


def _bar(
    axis: Any, x: float, width: float, value: float, variant: str, config: str = "", other: float = math.nan
) -> None:  # fmt: skip
    """A bar, its number and configuration above it in its colour; other: a mark there that must not be hidden."""
    if value is None or value != value:
        return
    color = style.look(variant)["color"]
    axis.bar(x, value, 0.94 * width, color=color, edgecolor="white", linewidth=0.5)
    text = (f"{config}\n" if config else "") + f"{number(value)}{TIMES}"
    higher = other == other and other > value
    axis.annotate(text, (x, other if higher else value), xytext=(0, 6 if higher else 3), textcoords="offset points",
                  ha="center", fontsize=7.2, color=color, zorder=4,
                  bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6})  # fmt: skip


def _star(axis: Any, x: float, value: float) -> None:
    if value is not None and value == value:
        axis.plot([x], [value], color="white", zorder=5, **STAR)


def _patch(variant: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=style.look(variant)["color"], label=f"{label}, SIMULATED")


def _marks(*extra: str) -> Sequence[Any]:
    from matplotlib.lines import Line2D

    found = [Line2D([], [], color="white", label="PAPER", **STAR)]
    if "linear" in extra:
        found.append(Line2D([], [], color="#888888", linewidth=0.9, linestyle="--", label="number of machines"))
    return found
