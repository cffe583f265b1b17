"""Drawing of Figure 9: latency (logarithmic) and number of active processes against message size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports import curves, style
from repro.reports.eagersgd.frames_collectives import NAMES, expected

if TYPE_CHECKING:
    import pandas as pd

UNITS = ((1 << 20, "MB"), (1 << 10, "kB"), (1, "B"))


def draw(found: pd.DataFrame, title: str) -> Any:
    """Two panels a kind and world, latency and NAP; `found`: `frames_collectives.medians`."""
    plt, sns = style.plotting()
    panels = list(found[["kind", "ranks"]].drop_duplicates().itertuples(index=False))
    figure, axes = plt.subplots(
        len(panels), 2, figsize=(12.5, 3.9 * len(panels) + 0.6), layout="constrained", squeeze=False
    )
    names = tuple(sorted(found["collective"].unique(), key=_order))
    for (kind, ranks), (left, right) in zip(panels, axes, strict=True):
        own = found[(found["kind"] == kind) & (found["ranks"] == ranks)]
        sizes = sorted(own["bytes"].unique())
        for name in names:
            at = own[own["collective"] == name].sort_values("bytes")
            if not len(at):
                continue
            look = style.look(_look(name, names), names)
            drawn = {"color": look["color"], "marker": look["marker"], "linestyle": curves.dashes(look),
                     "markeredgecolor": "white", "markersize": 6.5, "linewidth": 1.6}  # fmt: skip
            left.plot(at["bytes"], 1e3 * at["latency_mean_s"], **drawn)
            left.fill_between(at["bytes"], 1e3 * at["latency_min_s"], 1e3 * at["latency_max_s"], color=look["color"],
                              alpha=0.1, linewidth=0)  # fmt: skip
            right.plot(at["bytes"], at["nap_mean"], **drawn)
        for name, of in expected(int(ranks)).items():
            if name in ("solo", "majority"):
                right.axhline(of["nap"], color=style.look(name)["color"], linewidth=0.9, linestyle=(0, (1, 1.5)))
        left.set(yscale="log", ylabel="latency (ms), mean over ranks", title=f"{kind.upper()}, {ranks} ranks: latency")
        right.set(ylim=(0, 1.06 * ranks), ylabel="active processes (NAP)",
                  title=f"{kind.upper()}, {ranks} ranks: number of active processes")  # fmt: skip
        for axis in (left, right):
            axis.set_xscale("log", base=2)
            ticks = sizes[:: max(1, len(sizes) // 9)]
            axis.set_xticks(ticks, list(map(size_text, ticks)))
            axis.minorticks_off()
            axis.set_xlabel("message")
            sns.despine(ax=axis)
    figure.legend(handles=_handles(names), loc="outside lower center", ncols=6)
    style.titled(figure, title)
    return figure


def _look(name: str, names: tuple[str, ...]) -> str:
    """A quorum that stands alone has the look of all of them."""
    return "quorum" if [one for one in names if one not in NAMES] == [name] else name


def _order(name: str) -> tuple:
    known = list(NAMES)
    return (known.index(name), 0) if name in known else (len(known), int(name.rpartition(" ")[2] or 0))


def size_text(size: float) -> str:
    """`64 B`, `4 kB`, `1 MB`"""
    unit, name = next((unit, name) for unit, name in UNITS if size >= unit)
    return f"{size / unit:g} {name}"


def _handles(names: tuple[str, ...]) -> list:
    from matplotlib.lines import Line2D

    lines = curves.handles([_look(name, names) for name in names])
    for line in lines:
        line.set_label(NAMES.get(line.get_label(), line.get_label()))
    return [*lines, Line2D([], [], color="#777777", linewidth=0.9, linestyle=(0, (1, 1.5)),
                           label="expected of the skew alone: 1 and (P+1)/2")]  # fmt: skip
