"""Timelines of the recorded intervals: a row for each rank's main line and one for its communication line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from repro.reports import foreign, style

if TYPE_CHECKING:
    import pandas as pd

MAIN = "main"
LABELS = {"communicate": "communicate (on a main line: blocked on it)", "compress": "compression"}


def draw(intervals: pd.DataFrame, title: str) -> Any:
    """One panel a variant, on one time axis (ms); `intervals` is the frame of `repro.reports.frames.trace`."""
    from matplotlib.patches import Patch

    plt, sns = style.plotting()
    variants = list(intervals["setting"].unique())
    lines = [_rows(intervals[intervals["setting"] == name]) for name in variants]
    figure, axes = plt.subplots(
        len(variants),
        1,
        figsize=(13, 1.3 + 0.27 * sum(map(len, lines)) + 0.45 * len(variants)),
        sharex=True,
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": [len(of_variant) for of_variant in lines]},
    )
    end = float(intervals["end_ms"].max())
    for axis, name, of_variant in zip(axes[:, 0], variants, lines, strict=True):
        own = intervals[intervals["setting"] == name]
        for place, (rank, line) in enumerate(of_variant):
            at = own[(own["rank"] == rank) & (own["line"] == line)]
            for phase, some in at.groupby("name", sort=True):
                spans = list(zip(some["start_ms"], some["end_ms"] - some["start_ms"], strict=True))
                axis.broken_barh(
                    spans, (place - 0.4, 0.8), facecolor=colour(phase, line), edgecolor="white", linewidth=0.3
                )
            if place and of_variant[place - 1][0] != rank:
                axis.axhline(place - 0.5, color="#cccccc", linewidth=0.8)
        axis.set(ylim=(len(of_variant) - 0.5, -0.5), xlim=(0, end), ylabel="")
        axis.set_title(name, loc="left", fontweight="bold")
        axis.set_yticks(range(len(of_variant)), [f"rank {rank} {line}" for rank, line in of_variant])
        axis.grid(False, axis="y")
        sns.despine(ax=axis)
    axes[-1, 0].set_xlabel("milliseconds from the first interval shown")
    names = [n for n in style.PHASE_COLOURS if n in set(intervals["name"])]
    others = sorted(set(intervals["name"]) - set(names))
    handles = [Patch(color=style.PHASE_COLOURS[name], label=LABELS.get(name, name)) for name in names]
    handles += [Patch(color=colour(name, ""), label=name) for name in others]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles) or 1)
    style.titled(figure, title)
    return figure


def colour(name: str, line: str) -> str:
    """The phase's colour; on a communication line anything else is communication."""
    default = style.PHASE_COLOURS["communicate" if line != MAIN else "other"]
    return style.PHASE_COLOURS.get(name, default)


def _rows(own: pd.DataFrame) -> list[tuple[int, str]]:
    found = {(rank, line) for rank, line in zip(own["rank"], own["line"], strict=True)}
    return sorted(found, key=lambda row: (row[0], row[1] != MAIN, row[1]))


def chrome(intervals: pd.DataFrame) -> str:
    """The intervals as a Chrome trace (chrome://tracing, ui.perfetto.dev): a process a rank, a thread a line; µs."""
    events: list[dict] = []
    rows = _rows(intervals)
    thread = {row: rows.index(row) for row in rows}
    for rank in sorted({rank for rank, _ in rows}):
        events.append({"ph": "M", "name": "process_name", "pid": int(rank), "tid": 0, "args": {"name": f"rank {rank}"}})
    for (rank, line), tid in thread.items():
        args = {"name": foreign.plain(line)}
        events.append({"ph": "M", "name": "thread_name", "pid": int(rank), "tid": tid, "args": args})
    for at in intervals.itertuples():
        events.append(
            {
                "ph": "X",
                "name": foreign.plain(at.name),
                "cat": foreign.plain(at.line),
                "pid": int(at.rank),
                "tid": thread[at.rank, at.line],
                "ts": round(1e3 * at.start_ms, 3),
                "dur": round(1e3 * (at.end_ms - at.start_ms), 3),
            }
        )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, indent=0, sort_keys=True) + "\n"
