"""Drawing of figure 1: three training frameworks as rows of boxes on one time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import boxes, style

if TYPE_CHECKING:
    import pandas as pd


def draw(found: pd.DataFrame, title: str) -> Any:
    """A panel a framework; `found` is the frame of `frames_traces.figure1`. The shortest recording ends the axis."""
    plt, _ = style.plotting()
    panels = list(found["panel"].unique())
    order = [_rows(found[found["panel"] == panel]) for panel in panels]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(13, 1.2 + 0.27 * sum(map(len, order)) + 0.5 * len(panels)), sharex=True, squeeze=False,
        layout="constrained", gridspec_kw={"height_ratios": [len(of_panel) for of_panel in order]},
    )  # fmt: skip
    limit = float(found.groupby("panel")["end_ms"].max().min())
    for axis, panel, of_panel in zip(axes[:, 0], panels, order, strict=True):
        own = found[found["panel"] == panel]
        several = len({line for *_, line in of_panel}) > 1
        labels = [who if line == "main" else "communication" for _, who, line in of_panel]
        boxes.rows(axis, own, [(rank, line) for rank, _, line in of_panel], ("rank", "line"), labels, limit=limit)
        if several:
            boxes.separators(axis, [rank for rank, *_ in of_panel])
        axis.set_title(f"({panel}) {own['setting'].iloc[0]}", loc="left", fontweight="bold")
    axes[-1, 0].set_xlabel("milliseconds from the first interval of each recording")
    boxes.legend(figure, boxes.in_order(list(found["name"].unique())))
    style.titled(figure, title)
    return figure


def _rows(own: pd.DataFrame) -> list[tuple[int, str, str]]:
    found = {(rank, who, line) for rank, who, line in zip(own["rank"], own["who"], own["line"], strict=True)}
    return sorted(found, key=lambda row: (row[0], row[2] != "main", row[2]))
