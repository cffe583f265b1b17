"""Drawing of figure 2: a worker with limited resources, sequential and pipelined communication, and a ring's blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import boxes, style

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    "a": "(a) each worker with limited resources: {}",
    "b": "(b) gradient communication: {}",
    "c": "(c) a ring: {}, transmit and reduce, then send back",
}
WRITE = {"update": "U", "compute": "compute", "communicate": "", "idle": "idle", "forward": "F", "backward": "B",
         "allreduce": "allreduce"}  # fmt: skip


def draw(found: pd.DataFrame, title: str) -> Any:
    """Panels a, b (two variants on one axis) and c, each in its own milliseconds; panels without data are left out."""
    plt, _ = style.plotting()
    parts = list(found.groupby(["panel", "setting"], sort=False))
    order = [_rows(own) for _, own in parts]
    figure, axes = plt.subplots(
        len(parts), 1, figsize=(13, 1.3 + 0.34 * sum(map(len, order)) + 0.75 * len(parts)), squeeze=False,
        layout="constrained", gridspec_kw={"height_ratios": [len(rows) + 0.6 for rows in order]},
    )  # fmt: skip
    ends = found.groupby("panel")["end_ms"].max()
    for axis, ((panel, variant), own), rows in zip(axes[:, 0], parts, order, strict=True):
        labels = [f"{who}" if line == "main" or panel == "c" else "communication" for who, _, line in rows]
        keys = [(rank, line) for _, rank, line in rows]
        boxes.rows(axis, own, keys, ("rank", "line"), labels, WRITE, float(ends[panel]))
        axis.set_title(TITLES[panel].format(variant), loc="left", fontweight="bold")
        axis.set_xlabel("milliseconds")
    labels = {"communicate": "communicate: allreduce, transmit"}
    boxes.legend(figure, boxes.in_order(list(found["name"].unique())), labels)
    style.titled(figure, title)
    return figure


def _rows(own: pd.DataFrame) -> list[tuple[str, int, str]]:
    found = {(who, rank, line) for who, rank, line in zip(own["who"], own["rank"], own["line"], strict=True)}
    return sorted(found, key=lambda row: (row[1], row[2] != "main", row[2]))
