"""The pictures of the page: the map as panels of cells, and predicted over measured throughputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from repro.answers.figures import looks
from repro.answers.pages.files import Files
from repro.answers.ranking.candidates import ANY, SYNCHRONOUS, read_candidates
from repro.answers.ranking.cells import Cell

COLOURS = {  # families alike: allreduces blue and cyan, compression green, servers red, pipelines orange, stale purple
    **{"allreduce": "#08306b", "ddp": "#2171b5", "ddp_two_levels": "#4b93cf", "horovod": "#1295a8"},
    **{"ddp_fp16": "#00441b", "ddp_powersgd": "#238b45", "gtopk": "#4c9f3f", "topk": "#8a9a2b"},
    **{"ps": "#cb181d", "ps_separate": "#ee5a49", "ps_after": "#c0705e", "ps_single": "#67000d"},
    **{"gpipe": "#d27d1e", "one_f_one_b_flush": "#e6550d", "pipedream": "#a63603"},
    **{"gpipe_data": "#b8860b", "one_f_one_b_data": "#d9603b"},
    **{"pipe_sgd": "#54278f", "pipe_sgd_fp16": "#8983bd", "eager_solo": "#b03a7c", "eager_majority": "#d6739f"},
}
OTHER = "#8c8c8c"
WORKERS = (8, 32, 128)  # of the map's panels
KINDS = {SYNCHRONOUS: "to use", ANY: "unproven too"}
PANEL, LINE = 2.2, 0.15  # inches: of a panel of the map, of a line of a name
BAND = 0.2  # the goal for throughputs


def cells_at_a_glance(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of the picture: a few numbers of workers, none of them late."""
    return [cell for cell in cells if not cell.late and cell.workers in WORKERS]


def map_picture(files: Files, cells: Sequence[Cell]) -> str:
    """Above what to use, below what would be used if unproven strategies and those with other updates counted."""
    shown = cells_at_a_glance(cells)
    alt = "Panels of cells, for each number of workers and each comparison; a colour for each strategy."
    caption = (
        "What to use (**simulated**: closed forms) for ResNet-50's gradient of 102 MB: the simplest strategy that no "
        "other one replaces; below also of those that are unproven or change the updates. Computation is that of a "
        "minibatch, over the time to send the gradient twice."
    )
    every = pd.DataFrame([asdict(cell) for cell in cells])
    return files.picture(lambda width: draw_map(shown, width), "map", "map", alt, caption, every)


def draw_map(cells: Sequence[Cell], width: float = looks.WIDTH) -> Any:
    """A panel for each comparison and number of workers, a cell for each goodput and ratio, a name where
    a region has room for it."""
    looks.set_theme()
    import matplotlib.pyplot as plt
    import seaborn as sns
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    used = [name for name in read_candidates() if name in {cell.best for cell in cells}]
    colours = ListedColormap([COLOURS.get(name, OTHER) for name in used])
    table = pd.DataFrame([asdict(cell) for cell in cells]).assign(code=lambda rows: rows["best"].map(used.index))
    across = len(WORKERS) if width == looks.WIDTH else 1
    down = len(KINDS) * len(WORKERS) // across
    figure, axes = plt.subplots(down, across, figsize=(width, PANEL * down + 1.2), sharex=True, sharey=True,
                                layout="constrained", squeeze=False)  # fmt: skip
    for ((row, column), axis), (kind, workers) in zip(np.ndenumerate(axes), product(KINDS, WORKERS), strict=True):
        panel = table[(table["kind"] == kind) & (table["workers"] == workers)]
        best = panel.pivot(index="ratio", columns="gbit", values="code")
        sns.heatmap(best, cmap=colours, vmin=-0.5, vmax=len(used) - 0.5, cbar=False, linewidths=0.3, ax=axis)
        inch = np.array(best.shape) / (PANEL, width / across - 1)  # cells
        for code, name in enumerate(used):
            label = fill(read_candidates()[name].label, 11)
            lines = label.split("\n")
            needed = np.ceil(inch * (LINE * len(lines), max(map(len, lines)) / looks.LETTERS)).astype(int)
            if (needed <= best.shape).all():
                fits = sliding_window_view(best.to_numpy() == code, needed).all(axis=(2, 3))
                if len(corners := np.argwhere(fits)):
                    y, x = corners[len(corners) // 2] + needed / 2
                    axis.text(x, y, label, ha="center", va="center", fontsize=8, color="white")
        gbits, ratios = list(best.columns), list(best.index)
        axis.set(xlim=(0, len(gbits)), ylim=(0, len(ratios)), xlabel="", ylabel="")
        axis.set_xticks([n + 0.5 for n in range(0, len(gbits), 2)], [f"{gbit:g}" for gbit in gbits[::2]], rotation=0)
        axis.set_yticks([n + 0.5 for n in range(len(ratios))], [f"{ratio:g}" for ratio in ratios], rotation=0)
        axis.set_title(f"{workers} workers, {KINDS[kind]}")
        if row == down - 1 or across == 1:
            axis.tick_params(labelbottom=True)
            axis.set_xlabel("goodput (Gbit/s)")
        if column == 0:
            axis.set_ylabel("computation :\ncommunication")
    labels = [read_candidates()[name].label for name in used]
    patches = [Patch(facecolor=COLOURS.get(name, OTHER), label=label) for name, label in zip(used, labels, strict=True)]
    figure.legend(handles=patches, loc="outside lower center", ncols=looks.columns_of_legend(labels, width),
                  frameon=False)  # fmt: skip
    return figure


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
    from matplotlib.ticker import FixedLocator

    from repro.answers.figures.drawing import round_numbers
    from repro.answers.figures.marks import LINE

    names = {name: read_candidates()[name].label for name in table["candidate"].unique()}
    columns = looks.columns_of_legend([*names.values()], width)
    height = min(5.2, width) + 0.5 + LINE * math.ceil(len(names) / columns)
    figure, axis = plt.subplots(figsize=(width, height), layout="constrained")
    least, most = (end([end(table[x]), end(table[y])]) for end in (min, max))
    reach = np.array([0.7 * least, 1.4 * most])
    axis.fill_between(reach, reach * (1 - BAND), reach * (1 + BAND), color="0.9")
    axis.plot(reach, reach, color="0.5", linewidth=0.8)
    colours = {label: COLOURS.get(name, OTHER) for name, label in names.items()}
    shown = table.assign(strategy=table["candidate"].map(names))
    if ends:
        axis.vlines(shown[x], shown[ends[0]], shown[ends[1]], colors=shown["strategy"].map(colours), linewidth=0.8)
    sns.scatterplot(shown, x=x, y=y, hue="strategy", style="strategy", palette=colours, s=26, linewidth=0, ax=axis)
    axis.set(xscale="log", yscale="log", xlim=reach, ylim=reach)
    for along in (axis.xaxis, axis.yaxis):
        along.set_major_locator(FixedLocator(round_numbers(*reach, int(1.3 * width))))
        along.set_major_formatter("{x:,g}")  # matplotlib writes powers as formulas, which figures do not read
    axis.set_xlabel(f"{x.removesuffix('_s')} ({unit})")
    axis.set_ylabel(f"{y.removesuffix('_s')} ({unit})")
    handles, labels = axis.get_legend_handles_labels()
    axis.get_legend().remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure
