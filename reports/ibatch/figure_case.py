"""Drawing of Figure 3 (bars a layer) and Figure 4 (three timelines)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import style
from repro.reports.batched_pulls import MODES
from repro.reports.ibatch.frames_case import FORWARD, PULL

if TYPE_CHECKING:
    import pandas as pd

STARTUP, TRANSFER = "startup", "transfer"
COLOURS = {STARTUP: "#e8a49f", TRANSFER: style.PHASE_COLOURS["communicate"], FORWARD: style.PHASE_COLOURS["backward"]}
LABELS = {STARTUP: "communication: startup", TRANSFER: "communication: transfer", FORWARD: "forward computation"}
NAMES = {"default": "(a) default", "layerwise": "(b) layer by layer", "ibatch": "(c) iBatch"}


def layers(found: pd.DataFrame, title: str) -> Any:
    """Figure 3: two bars a layer: startup and transfer, stacked, beside forward computation."""
    plt, sns = style.plotting()
    figure, axis = plt.subplots(figsize=(max(8, 0.95 * len(found)), 4.3), layout="constrained")
    places, width = range(len(found)), 0.38
    left, right = [p - width / 2 for p in places], [p + width / 2 for p in places]
    axis.bar(left, found["startup_ms"], width, color=COLOURS[STARTUP], label=LABELS[STARTUP])
    axis.bar(left, found["transfer_ms"], width, bottom=found["startup_ms"], color=COLOURS[TRANSFER],
             label=LABELS[TRANSFER])  # fmt: skip
    axis.bar(right, found["forward_ms"], width, color=COLOURS[FORWARD], label=LABELS[FORWARD])
    labels = [f"{line.layer}\n{line.name}" for line in found.itertuples()]
    axis.set_xticks(list(places), labels, fontsize=7.5)
    axis.set(ylabel="milliseconds", xlabel="layer", xlim=(-0.6, len(found) - 0.4))
    axis.tick_params(axis="x", length=0)
    axis.grid(False, axis="x")
    axis.legend(loc="upper left", ncols=3, bbox_to_anchor=(0, 1.1))
    sns.despine(ax=axis)
    style.titled(figure, title)
    return figure


def timelines(found: pd.DataFrame, title: str) -> Any:
    """Figure 4: a panel a mode on one time axis: pulls above, forward computation below; numbers: layers."""
    from matplotlib.patches import Patch

    plt, sns = style.plotting()
    modes = [mode for mode in MODES if (found["mode"] == mode).any()]
    figure, axes = plt.subplots(len(modes), 1, figsize=(13, 0.9 + 1.5 * len(modes)), sharex=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    end = float(found["end_ms"].max())
    for axis, mode in zip(axes[:, 0], modes, strict=True):
        own = found[found["mode"] == mode]
        for box in own.itertuples():
            place, width = (0 if box.line == PULL else 1), box.end_ms - box.start_ms
            axis.broken_barh([(box.start_ms, width)], (place - 0.36, 0.72), facecolor=COLOURS[box.what],
                             edgecolor="white", linewidth=0.6)  # fmt: skip
            if box.what != STARTUP and width / end > 0.0055 * len(box.layers) + 0.002:
                axis.text(box.start_ms + width / 2, place, box.layers, ha="center", va="center", fontsize=7.5,
                          color="white", clip_on=True)  # fmt: skip
        last = float(own["end_ms"].max())
        axis.axvline(last, color="#444444", linewidth=0.8, linestyle="--")
        axis.annotate(f"{last:.4g} ms", (last, -0.42), xytext=(-3, 0), textcoords="offset points", ha="right",
                      va="bottom", fontsize=8, color="#444444")  # fmt: skip
        axis.set(ylim=(1.5, -0.75), xlim=(0, 1.02 * end))
        axis.set_title(NAMES[mode], loc="left")
        axis.set_yticks([0, 1], ["communication", "computation"])
        axis.tick_params(axis="y", length=0)
        axis.grid(False, axis="y")
        sns.despine(ax=axis, left=True)
    axes[-1, 0].set_xlabel("milliseconds from the first pull asked")
    whats = [what for what in COLOURS if (found["what"] == what).any()]
    handles = [Patch(color=COLOURS[what], label=LABELS[what]) for what in whats]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    style.titled(figure, title)
    return figure
