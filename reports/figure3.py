"""Drawing of figure 3: block transfer in native and in pipelined ring allreduce, without and with light compression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import boxes, style

if TYPE_CHECKING:
    import pandas as pd

PANELS = {"a": "without compression", "b": "with light compression"}


def draw(found: pd.DataFrame, title: str) -> Any:
    """A panel a codec, native above pipelined on one axis; `found`: from `frames_traces.figure3`, one rank."""
    plt, _ = style.plotting()
    parts = list(found.groupby(["panel", "codec"], sort=False))
    order = [_rows(own) for _, own in parts]
    figure, axes = plt.subplots(
        len(parts), 1, figsize=(13, 1.3 + 0.34 * sum(map(len, order)) + 0.75 * len(parts)), squeeze=False,
        layout="constrained", gridspec_kw={"height_ratios": [len(rows) + 0.6 for rows in order]},
    )  # fmt: skip
    for axis, ((panel, codec), own), rows in zip(axes[:, 0], parts, order, strict=True):
        several = {name for name, _ in rows if sum(other == name for other, _ in rows) > 1}
        labels = [f"{name}: {line}" if name in several else name for name, line in rows]
        boxes.rows(axis, own, rows, ("setting", "line"), labels)
        boxes.separators(axis, [name for name, _ in rows])
        text = PANELS[panel] if panel == "a" else f"{PANELS[panel]}: {codec}"
        axis.set_title(f"({panel}) {text}", loc="left", fontweight="bold")
        axis.set_xlabel("milliseconds")
    boxes.legend(figure, boxes.in_order(list(found["name"].unique())))
    style.titled(figure, title)
    return figure


def _rows(own: pd.DataFrame) -> list[tuple[str, str]]:
    found = {(p, s, line) for p, s, line in zip(own["pipelined"], own["setting"], own["line"], strict=True)}
    return [(variant, line) for _, variant, line in sorted(found, key=lambda r: (r[0], r[1], r[2] != "main", r[2]))]
