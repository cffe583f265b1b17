"""Histograms beside what a paper prints of the same distribution: its range, and its mean or median."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from repro.reports import style

if TYPE_CHECKING:
    import pandas as pd

OURS, PAPER = "#5b8db8", "#9c2f02"


@dataclass(frozen=True)
class Distribution:
    """A panel: bars (low, high, count), its own statistics and the paper's (min, max, mean or median, sd)."""

    title: str
    label: str
    bars: pd.DataFrame
    paper: Mapping[str, float]
    ours: Mapping[str, float] = field(default_factory=dict)


def binned(values: Sequence[float], bins: int = 40) -> pd.DataFrame:
    """low, high, count of equal bins over the values' range."""
    import numpy as np
    import pandas as pd

    counts, edges = np.histogram(np.asarray(values, dtype=float), bins=bins)
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], "count": counts})


def draw(panels: Sequence[Distribution], title: str) -> Any:
    """The panels in one row: bars of ours; the paper's range as a bracket, its centre as a line, sd as a band."""
    plt, sns = style.plotting()
    width = max(7.5, 5.2 * len(panels))
    figure, axes = plt.subplots(1, len(panels), figsize=(width, 4.3), layout="constrained", squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        bars = panel.bars
        axis.stairs(bars["count"], [*bars["low"], bars["high"].iloc[-1]], fill=True, color=OURS)
        top = 1.18 * max(float(bars["count"].max()), 1.0)
        _paper(axis, panel.paper, top)
        centre = _centre(panel.ours, panel.paper)
        if centre is not None:
            axis.axvline(centre, color="#1d3f5e", linewidth=1.4, zorder=4)
        axis.set(title=panel.title, xlabel=panel.label, ylabel="", ylim=(0, top))
        axis.grid(False, axis="x")
        sns.despine(ax=axis)
    axes[0, 0].set_ylabel("how many")
    figure.legend(handles=_handles(panels), loc="outside lower center", ncols=4 if len(panels) > 1 else 2)
    style.titled(figure, title)
    return figure


def _centre(of: Mapping[str, float], like: Mapping[str, float]) -> float | None:
    """The median where the paper prints one, else the mean."""
    return of.get("median" if "median" in like else "mean")


def _paper(axis: Any, paper: Mapping[str, float], top: float) -> None:
    centre, at = _centre(paper, paper), 0.94 * top
    if centre is not None:
        axis.axvline(centre, color=PAPER, linestyle="--", linewidth=1.4, zorder=4)
        if "sd" in paper:
            axis.axvspan(max(centre - paper["sd"], 0), centre + paper["sd"], color=PAPER, alpha=0.08, linewidth=0)
    if "min" in paper and "max" in paper:
        axis.plot([paper["min"], paper["max"]], [at, at], color=PAPER, linewidth=1.4, marker="|", markersize=11)


def _handles(panels: Sequence[Distribution]) -> list:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    centre = "median" if any("median" in panel.paper for panel in panels) else "mean"
    if len({"median" in panel.paper for panel in panels}) > 1:
        centre = "mean or median"
    handles = [Patch(color=OURS, label="ours")]
    if any(_centre(panel.ours, panel.paper) is not None for panel in panels):
        handles.append(Line2D([], [], color="#1d3f5e", linewidth=1.4, label=f"ours: {centre}"))
    return [
        *handles,
        Line2D([], [], color=PAPER, linestyle="--", linewidth=1.4, label=f"PAPER: {centre}, band: standard deviation"),
        Line2D([], [], color=PAPER, linewidth=1.4, marker="|", markersize=11, label="PAPER: least to largest"),
    ]
