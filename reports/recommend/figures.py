"""The pictures of the page: the map as panels of cells, and predicted over measured throughputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from repro.answers.pages.files import Files
from repro.answers.ranking.against import Contest
from repro.answers.ranking.candidates import candidates
from repro.answers.ranking.cells import Cell

COLOURS = {  # families alike: allreduces blue, compression green, servers red, pipelines orange, stale purple
    **{"allreduce": "#08306b", "ddp": "#2171b5", "horovod": "#6baed6"},
    **{"ddp_fp16": "#00441b", "ddp_powersgd": "#238b45", "gtopk": "#74c476", "topk": "#c7e9c0"},
    **{"ps": "#cb181d", "ps_separate": "#fb6a4a", "ps_after": "#fcbba1", "ps_single": "#67000d"},
    **{"gpipe": "#fdae6b", "one_f_one_b_flush": "#e6550d", "pipedream": "#a63603"},
    **{"pipe_sgd": "#54278f", "pipe_sgd_fp16": "#9e9ac8", "eager_solo": "#de77ae", "eager_majority": "#f1b6da"},
}
OTHER = "#bdbdbd"
BAND = 0.2  # the goal for throughputs


def map_picture(files: Files, cells: Sequence[Cell], kind: str, less: float, contests: Sequence[Contest]) -> str:
    """The map of a kind of strategies; contests: emulated comparisons, shown if no worker is late."""
    own = [cell for cell in cells if cell.kind == kind]
    here = [one for one in contests if not one.place.late and _inside(one, own)]
    rows = pd.DataFrame([asdict(cell) for cell in own])
    alt = "Panels of cells: a column for each number of workers, a row for each lateness; a colour for each strategy."
    dots = "; a dot: by the simulator itself" if any(cell.by == "simulation" for cell in own) else ""
    dots += (
        "; a diamond: the faster of those that were **emulated** there, mostly with another model, of other bytes"
        if here
        else ""
    )
    caption = (
        f"The fastest strategy (**simulated**: closed forms{dots}), for ResNet-50's "
        f"gradient of 102 MB. Hatched: ahead of the second by less than {less:.0%}, by which ratios of simulated "
        "steps may be off."
    )
    of = f"{kind} {less} {[asdict(one.fastest) for one in here]}"
    return files.picture(lambda: draw_map(own, less, here), of, f"map-{kind}", alt, caption, rows)


def _inside(one: Contest, cells: Sequence[Cell]) -> bool:
    """Whether a comparison lies within a panel of the map."""
    if one.place.workers not in {cell.workers for cell in cells}:
        return False
    axes = [(getattr(one.place, name), [getattr(cell, name) for cell in cells]) for name in ("gbit", "ratio")]
    return all(min(values) / 1.5 <= value <= 1.5 * max(values) for value, values in axes)


def draw_map(cells: Sequence[Cell], less: float, contests: Sequence[Contest] = ()) -> Any:
    """A panel for each number of workers and lateness, a cell for each bandwidth and ratio, a diamond a contest."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle

    workers, late, gbits, ratios = (
        sorted({getattr(cell, name) for cell in cells}) for name in ("workers", "late", "gbit", "ratio")
    )
    figure, axes = plt.subplots(
        len(late), len(workers), figsize=(2.0 * len(workers), 2.0 * len(late) + 1.5), sharex=True, sharey=True,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for (row, column), axis in np.ndenumerate(axes):
        own = [cell for cell in cells if (cell.late, cell.workers) == (late[row], workers[column])]
        for close, hatch in ((False, None), (True, "////")):
            some = [cell for cell in own if (cell.margin < less) is close]
            places = [Rectangle((gbits.index(cell.gbit), ratios.index(cell.ratio)), 1, 1) for cell in some]
            colours = [COLOURS.get(cell.best, OTHER) for cell in some]
            drawn = PatchCollection(places, facecolor=colours, edgecolor="white", hatch=hatch, linewidth=0.3)
            axis.add_collection(drawn, autolim=False)
        dots = [cell for cell in own if cell.by == "simulation"]
        x, y = (
            [values.index(getattr(cell, name)) + 0.5 for cell in dots]
            for name, values in (("gbit", gbits), ("ratio", ratios))
        )
        axis.plot(x, y, "o", color="white", markersize=2)
    for one in contests:
        axis = axes[late.index(one.place.late), workers.index(one.place.workers)]
        x, y = _along(one.place.gbit, gbits), _along(one.place.ratio, ratios)
        colour = COLOURS.get(one.fastest.candidate, OTHER)
        axis.plot(x, y, "D", color=colour, markeredgecolor="black", markersize=5, zorder=3, clip_on=False)
    for (row, column), axis in np.ndenumerate(axes):
        axis.set_xlim(0, len(gbits))
        axis.set_ylim(0, len(ratios))
        axis.set_xticks([n + 0.5 for n in range(len(gbits))], [f"{gbit:g}" for gbit in gbits], fontsize=8)
        axis.set_yticks([n + 0.5 for n in range(len(ratios))], [f"{one:g}" for one in ratios], fontsize=8)
        if row == 0:
            axis.set_title(f"{workers[column]} workers", fontsize=10)
        if row == len(late) - 1:
            axis.set_xlabel("Gbit/s", fontsize=9)
        if column == 0:
            lateness = f"one worker late by {late[row]:.0%}" if late[row] else "no worker late"
            axis.set_ylabel(f"{lateness}\ncomputation : communication", fontsize=8)
    shown = {*(cell.best for cell in cells), *(one.fastest.candidate for one in contests)}
    fastest = [name for name in candidates() if name in shown]
    patches = [Patch(facecolor=COLOURS.get(name, OTHER), label=candidates()[name].label) for name in fastest]
    figure.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=10, frameon=False)
    return figure


def _along(value: float, values: Sequence[float]) -> float:
    """The position of a value on an axis of cells (0.5: the middle of the first), at most the last one's middle."""
    for at, (low, high) in enumerate(pairwise(values)):
        if value <= high:
            return at + 0.5 + max(0.0, math.log(value / low) / math.log(high / low))
    return len(values) - 0.5


def emulated_scatter(files: Files, table: pd.DataFrame) -> str:
    alt = "Predicted over emulated seconds of an iteration, a point for each row; nearly all lie on the diagonal."
    caption = (
        "Seconds of an iteration as **emulated** (real processes and messages over limited links; computation slept) "
        "and by the forms with the same constants (**simulated**). The band is a fifth either way."
    )
    draw = partial(_against, table, "emulated_s", "predicted_s", "s an iteration")
    return files.picture(draw, "emulated", "emulated", alt, caption, table)


def scatter(files: Files, table: pd.DataFrame) -> str:
    alt = "Predicted over measured throughput, a point for each published row; most lie within a fifth of the diagonal."
    caption = (
        "Throughputs that others measured (**paper**) and what the tool predicts (**simulated**: closed forms), "
        "with 90 % of the draws. The band is a fifth either way."
    )
    draw = partial(_against, table, "measured", "predicted", "samples/s", ends=("low", "high"))
    return files.picture(draw, "published", "published", alt, caption, table)


def _against(table: pd.DataFrame, x: str, y: str, unit: str, ends: tuple[str, str] | None = None) -> Any:
    """Predicted over observed, a colour for each strategy; ends: columns of the intervals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 5.2), layout="constrained")
    least, most = (of([of(table[x]), of(table[y])]) for of in (min, max))
    reach = [0.7 * least, 1.4 * most]
    axis.fill_between(reach, [one * (1 - BAND) for one in reach], [one * (1 + BAND) for one in reach], color="0.9")
    axis.plot(reach, reach, color="0.5", linewidth=0.8)
    for name, own in table.groupby("candidate", sort=False):
        off = [own[y] - own[ends[0]], own[ends[1]] - own[y]] if ends else None
        axis.errorbar(
            own[x], own[y], yerr=off and [one.clip(lower=0) for one in off], fmt="o", markersize=4,
            linewidth=0.8, color=COLOURS.get(str(name), OTHER), label=candidates()[str(name)].label,
        )  # fmt: skip
    axis.set(xscale="log", yscale="log", xlim=reach, ylim=reach)
    axis.set_xlabel(f"{x.removesuffix('_s')}, {unit}")
    axis.set_ylabel(f"{y.removesuffix('_s')}, {unit}")
    axis.legend(fontsize=7, frameon=False)
    return figure
