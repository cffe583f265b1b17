"""Drawing of rows of boxes on a time axis, shared by figures 1, 2 and 3; the frames are those of `frames_traces`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.reports import style

if TYPE_CHECKING:
    import pandas as pd

# The three of figure 1 in the project's phase colours, and what only figures 2 and 3 have.
COLOURS = {
    "update": style.PHASE_COLOURS["update"],
    "compute": "#8fc3a1",
    "forward": style.PHASE_COLOURS["forward"],
    "backward": style.PHASE_COLOURS["backward"],
    "communicate": style.PHASE_COLOURS["communicate"],
    "send back": "#e29a93",
    "reduce": "#5b7fb4",
    "decompress+sum+compress": style.PHASE_COLOURS["compress"],
}
IDLE = {"facecolor": "#f4f4f4", "edgecolor": "#b5b5b5", "hatch": "....", "linewidth": 0.4}


def colour(name: str) -> str:
    """The colour of a box; an allreduce of a segment is communication."""
    return COLOURS["communicate"] if name.startswith("allreduce") else COLOURS.get(name, style.PHASE_COLOURS["other"])


def rows(
    axis: Any, boxes: pd.DataFrame, order: Sequence[tuple[Any, ...]], keys: Sequence[str], labels: Sequence[str],
    write: Mapping[str, str] | None = None, limit: float | None = None,
) -> None:  # fmt: skip
    """Draw `boxes` (start_ms, end_ms, name): a row for each value of `order` of the columns `keys`, from the top.

    write: box name -> text inside boxes that are wide enough (`allreduce 2` writes its number); limit: end of the axis.
    """
    _, sns = style.plotting()
    limit = float(boxes["end_ms"].max()) if limit is None else limit
    for place, values in enumerate(order):
        own = boxes
        for key, value in zip(keys, values, strict=True):
            own = own[own[key] == value]
        for name, some in own.groupby("name", sort=True):
            spans = list(zip(some["start_ms"], some["end_ms"] - some["start_ms"], strict=True))
            thin = [span for span in spans if span[1] < 0.004 * limit and name != "idle"]
            look = IDLE if name == "idle" else {"facecolor": colour(name), "edgecolor": "white", "linewidth": 0.5}
            axis.broken_barh([span for span in spans if span not in thin], (place - 0.4, 0.8), **look)
            # a box that its white edge would hide is a line
            axis.broken_barh(thin, (place - 0.4, 0.8), facecolor=colour(name), edgecolor=colour(name), linewidth=1.1)
            for start, width in spans:
                text = _fitting(name, write or {}, min(width, limit - start) / limit)
                if text:
                    dark = name in ("update", "backward") or name.startswith("allreduce")
                    axis.text(
                        min(start + width / 2, (start + limit) / 2), place, text, ha="center", va="center",
                        fontsize=7.5, color="white" if dark else "#222222", clip_on=True,
                    )  # fmt: skip
    axis.set(ylim=(len(order) - 0.5, -0.5), xlim=(0, limit), ylabel="")
    axis.set_yticks(range(len(order)), labels)
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")
    sns.despine(ax=axis, left=True)


def _fitting(name: str, write: Mapping[str, str], share: float) -> str:
    """The longest text for a box that fits into its share of the axis: `allreduce 2`, `2`, or nothing."""
    what, _, number = name.partition(" ") if name.startswith("allreduce") else (name, "", "")
    texts = [f"{write.get(what, '')} {number}".strip(), number]
    return next((text for text in texts if text and share > 0.008 + 0.0062 * len(text)), "")


def separators(axis: Any, groups: Sequence[Any]) -> None:
    """A thin line between rows of different groups (ranks)."""
    for place in range(1, len(groups)):
        if groups[place] != groups[place - 1]:
            axis.axhline(place - 0.5, color="#d5d5d5", linewidth=0.8, zorder=0)


def legend(figure: Any, names: Sequence[str], labels: Mapping[str, str] | None = None) -> None:
    """One legend below the figure, in the order of `names`."""
    from matplotlib.patches import Patch

    handles = []
    short = ["communicate" if name.startswith("allreduce") else name for name in names]
    for name in dict.fromkeys(short):
        text = (labels or {}).get(name, name)
        handles.append(Patch(label=text, **IDLE) if name == "idle" else Patch(color=colour(name), label=text))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles) or 1)


def in_order(names: Sequence[str]) -> list[str]:
    """The names that a figure has, in the order of the colours above, others and idle last."""
    known = [name for name in COLOURS if name in names]
    others = sorted(set(names) - set(known) - {"idle"})
    return [*known, *others, *(["idle"] if "idle" in names else [])]
