"""Drawing of timelines: a row a machine with its passes and their minibatch numbers, communication below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.pipedream.frames_timelines import COMMUNICATION, STALL, window
from repro.reports.schedules import COMPUTING, MAIN, PASSES

if TYPE_CHECKING:
    import pandas as pd

HEIGHT, BELOW = 0.52, 0.16  # of a machine's row of 1: passes, and communication under them
STALLED = {"facecolor": "#f1f1f1", "edgecolor": "#b5b5b5", "hatch": "....", "linewidth": 0.3}
COLOURS = {**{name: style.PHASE_COLOURS[name] for name in COMPUTING}, "backward": "#5e9f77"}
LABELS = {"forward": "forward pass (number: its minibatch)", "backward": "backward pass", "update": "update"}


def draw(panels: Mapping[str, pd.DataFrame], title: str) -> Any:
    """A panel a title of `panels`, each on its own time axis (its boxes: `frames_timelines.boxes`)."""
    plt, sns = style.plotting()
    counts = [own["machine"].nunique() for own in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(13.5, 0.9 + sum(0.46 * n + 0.75 for n in counts)), squeeze=False, layout="constrained",
        gridspec_kw={"height_ratios": [n + 1 for n in counts]},
    )  # fmt: skip
    for axis, (name, own) in zip(axes[:, 0], panels.items(), strict=True):
        _panel(axis, own)
        axis.set_title(name, loc="left")
        sns.despine(ax=axis, left=True)
    axes[-1, 0].set_xlabel("milliseconds from the first interval shown")
    figure.legend(handles=_handles(list(panels.values())), loc="outside lower center", ncols=5)
    style.titled(figure, title)
    return figure


def _panel(axis: Any, own: pd.DataFrame) -> None:
    end = window(own)
    machines = sorted(own["machine"].unique())
    for place, machine in enumerate(machines):
        of_machine = own[(own["machine"] == machine) & (own["start_ms"] < end)]
        for box in of_machine.itertuples():
            start, width = box.start_ms, min(box.end_ms, end) - box.start_ms
            if box.line == COMMUNICATION:
                axis.broken_barh([(start, width)], (place + HEIGHT / 2, BELOW), facecolor=style.PHASE_COLOURS[
                    "communicate"], edgecolor="none")  # fmt: skip
                continue
            look = STALLED if box.name == STALL else {
                "facecolor": COLOURS[box.name], "edgecolor": "white", "linewidth": 0.6}  # fmt: skip
            axis.broken_barh([(start, width)], (place - HEIGHT / 2, HEIGHT), **look)
            if box.name in PASSES:
                _write(axis, box, start, width, place, end)
    axis.set(ylim=(len(machines) - 0.35, -0.5), xlim=(0, end))
    axis.set_yticks(range(len(machines)), [f"machine {machine}" for machine in machines])
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")


def _write(axis: Any, box: Any, start: float, width: float, place: int, end: float) -> None:
    """The minibatch's number, where it fits."""
    import pandas as pd

    if pd.isna(box.minibatch):
        return
    text = str(int(box.minibatch))
    if width / end > 0.0052 * len(text) + 0.002:
        axis.text(start + width / 2, place, text, ha="center", va="center", fontsize=7.5,
                  color="white" if box.name == "backward" else "#1d3527", clip_on=True)  # fmt: skip


def _handles(every: list[pd.DataFrame]) -> list:
    from matplotlib.patches import Patch

    names = {name for own in every for name in own[own["line"] == MAIN]["name"]}
    handles = [Patch(color=COLOURS[name], label=LABELS[name]) for name in COMPUTING if name in names]
    if STALL in names:
        handles.append(Patch(label="stall: blocked on a transfer or on others", **STALLED))
    if any((own["line"] == COMMUNICATION).any() for own in every):
        handles.append(Patch(color=style.PHASE_COLOURS["communicate"], label="communication beside the computation"))
    return handles
