"""`repro plot`: accuracy over time of an experiment's finished runs, in the terminal."""

from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING, Any

from repro.cli.results import add_where
from repro.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

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
        raise InputError(f"{args.experiment}: no finished run of seed {args.seed} has an accuracy; see repro results")
    points = results(args.experiment, table="points")
    points = points[points["iteration"] > 0]  # accuracies before training would take up most of the axis
    comparable = [*PLACE_COLUMNS, "metric"]
    latest = newest_rows(runs, [*comparable, "variant"])
    print("\n\n".join(plot_runs(group, points, args.against) for _, group in latest.groupby(comparable, sort=False)))


def plot_runs(runs: pd.DataFrame, points: pd.DataFrame, against: str) -> str:
    """The plot of comparable runs, a line each."""
    from repro.core.terminal import one_line
    from repro.core.text_plot import plot_text

    column, axis = X[against]
    first = runs.iloc[0]
    lines = {}
    for run in runs.sort_values("variant").itertuples():
        curve = points[points["run"] == run.run][[column, first["metric"]]].dropna()
        lines[f"{run.variant}: {run.final:.4g}"] = [*curve.itertuples(index=False, name=None)]
    size = shutil.get_terminal_size()
    title = f"{first['paper']}/{first['experiment']} on {first['testbed']} ({first['kind']}, {first['scale']})"
    return one_line(title) + "\n" + plot_text(lines, axis, first["metric"], size.columns, size.lines - 2)
