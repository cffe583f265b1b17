"""`repro plot`: accuracy over time of an experiment's finished runs, as a line plot of characters."""

from __future__ import annotations

import argparse
import shutil
import string
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from repro.cli.results import add_where
from repro.core.errors import InputError
from repro.core.terminal import one_line, style_text

if TYPE_CHECKING:
    import pandas as pd

MARKS = "ox+*#@%&" + string.ascii_uppercase
STYLES = ("blue", "red", "green", "magenta", "cyan", "yellow")
AXIS = 9  # characters of the vertical axis and its labels
Line = Sequence[tuple[float, float]]


class Range(NamedTuple):
    """The limits of an axis."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        low, high = min(values), max(values)
        beside = 0 if high > low else abs(low) / 10 or 1
        return cls(low - beside, high + beside)

    def place(self, value: float, cells: int) -> int:
        """The index of a value's cell, from 0."""
        return round((value - self.low) / (self.high - self.low) * (cells - 1))


def plot_text(lines: Mapping[str, Line], x: str, y: str, width: int = 80, height: int = 24) -> str:
    """Plot lines by name, each of (x, y) points in the order of x; x, y: titles of the axes.

    Marks show points, dots the lines between them. A cell shows the first line that crosses it.
    """
    points = [point for line in lines.values() for point in line]
    if not points:
        return "nothing to plot"
    columns, rows = max(20, width - AXIS), max(5, height - len(lines) - 4)
    across, up = Range.of([point[0] for point in points]), Range.of([point[1] for point in points])
    cells = [[" "] * columns for _ in range(rows)]
    for number, line in enumerate(lines.values()):
        places = [(across.place(a, columns), rows - 1 - up.place(b, rows)) for a, b in line]
        for (left, top), (right, bottom) in pairwise(places):
            for column in range(left + 1, right):
                row = round(top + (bottom - top) * (column - left) / (right - left))
                if cells[row][column] == " ":
                    cells[row][column] = _shown(".", number)
        for column, row in places:
            if cells[row][column] in (" ", *(_shown(".", each) for each in range(len(lines)))):
                cells[row][column] = _shown(_mark(number), number)
    labels = {0: f"{up.high:.4g}", rows // 2: f"{(up.high + up.low) / 2:.4g}", rows - 1: f"{up.low:.4g}"}
    drawn = [f"{labels.get(row, ''):>{AXIS - 2}} |{''.join(marks)}".rstrip() for row, marks in enumerate(cells)]
    ends = f"{across.low:.4g}", f"{across.high:.4g}"
    drawn.append(" " * (AXIS - 1) + "+" + "-" * columns)
    drawn.append(" " * AXIS + ends[0] + x.center(columns - len(ends[0]) - len(ends[1])) + ends[1])
    legend = [f"  {_shown(_mark(number), number)} {one_line(name)}" for number, name in enumerate(lines)]
    return "\n".join([one_line(y), *drawn, *legend])


def _mark(number: int) -> str:
    return MARKS[number % len(MARKS)]


def _shown(text: str, number: int) -> str:
    return style_text(text, STYLES[number % len(STYLES)], sys.stdout)


X = {"time": ("train_s", "seconds of training"), "epochs": ("epoch", "epochs")}


def add_commands(commands: Any) -> None:
    plot = commands.add_parser("plot", help="plot accuracy over time of finished runs, in the terminal")
    plot.add_argument("experiment", help="PAPER/EXPERIMENT, for instance pipesgd/fig4-mnist")
    plot.add_argument("--against", choices=[*X], default="time", help="time (the default) or epochs")
    plot.add_argument("--seed", type=int, default=0, help="the seed whose runs are shown (default: 0)")
    add_where(plot)
    plot.set_defaults(command=cmd_plot)


def cmd_plot(args: argparse.Namespace) -> None:
    from repro.records.results import results
    from repro.records.variants import PLACE_COLUMNS, newest_rows

    runs = results(args.experiment, [*args.where, f"seed={args.seed}"])
    runs = runs[runs["final"].notna()]
    if runs.empty:
        every = results(args.experiment, args.where)
        seeds = ", ".join(map(str, sorted(every["seed"][every["final"].notna()].unique()))) or "none"
        raise InputError(
            f"{args.experiment}: no finished run of seed {args.seed} has an accuracy; seeds with one: {seeds}"
        )
    points = results(args.experiment, table="points")
    points = points[points["iteration"] > 0]  # accuracies before training would take up most of the axis
    comparable = [*PLACE_COLUMNS, "metric"]
    latest = newest_rows(runs, [*comparable, "variant"])
    print("\n\n".join(plot_runs(group, points, args.against) for _, group in latest.groupby(comparable, sort=False)))


def plot_runs(runs: pd.DataFrame, points: pd.DataFrame, against: str) -> str:
    """The plot of comparable runs, a line each."""
    from repro.core.terminal import one_line

    column, axis = X[against]
    first = runs.iloc[0]
    lines = {}
    for run in runs.sort_values("variant").itertuples():
        curve = points[points["run"] == run.run][[column, first["metric"]]].dropna()
        lines[f"{run.variant}: {run.final:.4g}"] = [*curve.itertuples(index=False, name=None)]
    size = shutil.get_terminal_size()
    title = f"{first['paper']}/{first['experiment']} on {first['testbed']} ({first['kind']}, {first['scale']})"
    return one_line(title) + "\n" + plot_text(lines, axis, first["metric"], size.columns, size.lines - 2)
