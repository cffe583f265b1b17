"""The pictures of the page: the map as panels of cells, and predicted over measured throughputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd

from repro.answers.claims.stats import format_percent
from repro.answers.figures import looks
from repro.answers.pages.files import Files
from repro.answers.ranking.against import Contest
from repro.answers.ranking.candidates import read_candidates
from repro.answers.ranking.cells import Cell

COLOURS = {  # families alike: allreduces blue, compression green, servers red, pipelines orange, stale purple
    **{"allreduce": "#08306b", "ddp": "#2171b5", "horovod": "#4b93cf"},
    **{"ddp_fp16": "#00441b", "ddp_powersgd": "#238b45", "gtopk": "#4c9f3f", "topk": "#8a9a2b"},
    **{"ps": "#cb181d", "ps_separate": "#ee5a49", "ps_after": "#c0705e", "ps_single": "#67000d"},
    **{"gpipe": "#d27d1e", "one_f_one_b_flush": "#e6550d", "pipedream": "#a63603"},
    **{"pipe_sgd": "#54278f", "pipe_sgd_fp16": "#8983bd", "eager_solo": "#b03a7c", "eager_majority": "#d6739f"},
}
OTHER = "#8c8c8c"
BAND = 0.2  # the goal for throughputs


def map_picture(files: Files, cells: Sequence[Cell], kind: str, less: float, contests: Sequence[Contest]) -> str:
    """The map of a kind of strategies; contests: emulated comparisons, shown if no worker is late."""
    shown = [cell for cell in cells if cell.kind == kind]
    here = [each for each in contests if not each.place.late and _inside(each, shown)]
    rows = pd.DataFrame([asdict(cell) for cell in shown])
    alt = "Panels of cells: a column for each number of workers, a row for each lateness; a colour for each strategy."
    dots = "; a dot: by the simulator itself" if any(cell.by == "simulation" for cell in shown) else ""
    dots += (
        "; a diamond: the faster of those that were **emulated** there, mostly with another model, of other bytes"
        if here
        else ""
    )
    caption = (
        f"The fastest strategy (**simulated**: closed forms{dots}), for ResNet-50's "
        f"gradient of 102 MB. Hatched: ahead of the second by less than {format_percent(less)}, by which ratios of "
        "simulated steps may be off."
    )
    text = f"{kind} {less} {[asdict(each.fastest) for each in here]}"
    return files.picture(lambda width: draw_map(shown, less, here, width), text, f"map-{kind}", alt, caption, rows)


def _inside(contest: Contest, cells: Sequence[Cell]) -> bool:
    """Whether a comparison lies within a panel of the map."""
    if contest.place.workers not in {cell.workers for cell in cells}:
        return False
    axes = [(getattr(contest.place, name), [getattr(cell, name) for cell in cells]) for name in ("gbit", "ratio")]
    return all(min(values) / 1.5 <= value <= 1.5 * max(values) for value, values in axes)


def draw_map(cells: Sequence[Cell], less: float, contests: Sequence[Contest] = (), width: float = looks.WIDTH) -> Any:
    """A panel for each number of workers and lateness, a cell for each bandwidth and ratio, a diamond a contest."""
    looks.set_theme()
    import matplotlib.pyplot as plt
    import seaborn as sns
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    shown = {*(cell.best for cell in cells), *(each.fastest.candidate for each in contests)}
    fastest = [name for name in read_candidates() if name in shown]
    colours = ListedColormap([COLOURS.get(name, OTHER) for name in fastest])
    table = pd.DataFrame([asdict(cell) for cell in cells])
    table = table.assign(best=table["best"].map(fastest.index), close=table["margin"] < less)
    table["simulated"] = table["by"] == "simulation"
    late, workers = (sorted(table[name].unique()) for name in ("late", "workers"))
    across = len(workers) if width == looks.WIDTH else math.gcd(2, len(workers))  # panels have one size
    down = len(late) * len(workers) // across
    figure, axes = plt.subplots(down, across, figsize=(width, 1.9 * down + 1.4), sharex=True, sharey=True,
                                layout="constrained", squeeze=False)  # fmt: skip
    for ((row, column), axis), (lateness, count) in zip(np.ndenumerate(axes), product(late, workers), strict=True):
        panel = table[(table["late"] == lateness) & (table["workers"] == count)]
        best, close, simulated = (
            panel.pivot(index="ratio", columns="gbit", values=name) for name in ("best", "close", "simulated")
        )
        sns.heatmap(best, cmap=colours, vmin=-0.5, vmax=len(fastest) - 0.5, cbar=False, linewidths=0.3, ax=axis)
        axis.pcolor(np.ma.masked_array(best, ~close.to_numpy(bool)), cmap=ListedColormap(["none"]), hatch="////",
                    edgecolors="white", linewidth=0)  # fmt: skip
        y, x = np.nonzero(simulated.to_numpy(bool))
        axis.plot(x + 0.5, y + 0.5, "o", color="white", markersize=1.6)
        gbits, ratios = list(best.columns), list(best.index)
        for place, fast in ((each.place, each.fastest) for each in contests):
            if (place.late, place.workers) == (lateness, count):
                axis.plot(_along(place.gbit, gbits), _along(place.ratio, ratios), "D", markeredgecolor="black",
                          color=COLOURS.get(fast.candidate, OTHER), markersize=4, zorder=3, clip_on=False)  # fmt: skip
        axis.set(xlim=(0, len(gbits)), ylim=(0, len(ratios)), xlabel="", ylabel="")
        axis.set_xticks([n + 0.5 for n in range(0, len(gbits), 2)], [f"{gbit:g}" for gbit in gbits[::2]], rotation=0)
        axis.set_yticks([n + 0.5 for n in range(len(ratios))], [f"{ratio:g}" for ratio in ratios], rotation=0)
        if row == 0 or across < len(workers):
            axis.set_title(f"{count} workers")
        if row == down - 1:
            axis.set_xlabel("Gbit/s")
        if column == 0:
            about = f"one worker late by {format_percent(lateness)}" if lateness else "no worker late"
            axis.set_ylabel(f"{about}\ncomputation :\ncommunication")
    names = [read_candidates()[name].label for name in fastest]
    patches = [
        Patch(facecolor=COLOURS.get(name, OTHER), label=label) for name, label in zip(fastest, names, strict=True)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=looks.columns_of_legend(names, width),
                  frameon=False)  # fmt: skip
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


def _against(table: pd.DataFrame, x: str, y: str, unit: str, width: float, ends: tuple[str, str] | None = None) -> Any:
    """Predicted over observed, a colour for each strategy; ends: columns of the intervals."""
    looks.set_theme()
    import matplotlib.pyplot as plt
    import seaborn as sns

    figure, axis = plt.subplots(figsize=(width, min(5.2, width) + 1), layout="constrained")
    least, most = (end([end(table[x]), end(table[y])]) for end in (min, max))
    reach = np.array([0.7 * least, 1.4 * most])
    axis.fill_between(reach, reach * (1 - BAND), reach * (1 + BAND), color="0.9")
    axis.plot(reach, reach, color="0.5", linewidth=0.8)
    names = {name: read_candidates()[name].label for name in table["candidate"].unique()}
    colours = {label: COLOURS.get(name, OTHER) for name, label in names.items()}
    shown = table.assign(strategy=table["candidate"].map(names))
    if ends:
        axis.vlines(shown[x], shown[ends[0]], shown[ends[1]], colors=shown["strategy"].map(colours), linewidth=0.8)
    sns.scatterplot(shown, x=x, y=y, hue="strategy", style="strategy", palette=colours, s=26, linewidth=0, ax=axis)
    axis.set(xscale="log", yscale="log", xlim=reach, ylim=reach)
    for along in (axis.xaxis, axis.yaxis):
        along.set_major_formatter("{x:g}")  # matplotlib writes powers as formulas, which figures do not read
    axis.set_xlabel(f"{x.removesuffix('_s')} ({unit})")
    axis.set_ylabel(f"{y.removesuffix('_s')} ({unit})")
    handles, labels = axis.get_legend_handles_labels()
    axis.get_legend().remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=looks.columns_of_legend(labels, width),
                  frameon=False)  # fmt: skip
    return figure
