"""`repro results`, `repro compare`: print tables of finished runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repro.cli.options import as_json, new_file
from repro.core.errors import cannot_access
from repro.core.terminal import one_line, print_progress, report_waiting

if TYPE_CHECKING:
    import pandas as pd

OF_UNFINISHED = ("run", "iteration", "iterations", "epoch", "metric", "so_far", "state", "origin")


def add_commands(commands: Any) -> None:
    results = commands.add_parser("results", help="tabulate finished runs: yours and the committed ones")
    results.add_argument("paper", nargs="?", help="only this PAPER or PAPER/EXPERIMENT (default: all)")
    add_where(results)
    results.add_argument("--table", default="runs", help="runs (the default), points, rows, intervals or unfinished")
    form = results.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV with all columns")
    form.add_argument("--json", action="store_true", help="print JSON: a list of rows")
    form.add_argument("--parquet", type=new_file, metavar="FILE", help="write a Parquet file with all columns")
    results.set_defaults(command=cmd_results)

    compare = commands.add_parser("compare", help="compare two variants or strategies wherever both were run")
    compare.add_argument("first", help="a variant as `repro results` shows it, or a strategy")
    compare.add_argument("second", metavar="other", help="what it is compared with, another such name")
    compare.add_argument("--paper", help="only this PAPER or PAPER/EXPERIMENT (default: all)")
    add_where(compare)
    as_json(compare)
    compare.set_defaults(command=cmd_compare)


def add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--where", action="append", default=[], metavar="CONDITION", help="workers=4, step_s<0.1, ...")


def cmd_results(args: argparse.Namespace) -> None:
    from repro.core.atomic import write_atomically
    from repro.records import printed
    from repro.records.results import UNFINISHED, results

    with report_waiting("reading the runs", print_progress):
        table = results(args.paper, args.where, args.table)
    if args.parquet:
        try:
            write_atomically(args.parquet, table.to_parquet(None, index=False))
        except OSError as error:
            raise cannot_access("write", args.parquet, error) from None
    elif args.json:
        print_json(table)
    elif args.csv:
        print(printed.csv(table), end="")
    else:
        nothing = "no unfinished runs" if args.table == UNFINISHED else f"no {args.table}"
        shown = printed.text(table, index=False) if len(table) else nothing
        print(format_experiments(table) if args.table == "runs" else shown)
        if args.table == "runs" and args.paper and table.empty and not args.where:
            show_drawn(args.paper)
        if args.table == "runs":
            show_unfinished(args.paper, args.where)


def show_drawn(paper: str) -> None:
    """Say that a paper without runs has draws, if it has."""
    from repro.records import catalogue

    if drawn := len(catalogue.sweeps(paper.split("/")[0])):
        print(f"the inputs of {drawn} runs are drawn (repro draws {paper.split('/')[0]}); repro run {paper} makes runs")


def show_unfinished(paper: str | None, where: Sequence[str]) -> None:
    """Print the runs that have no result, if there are any: those that were cut off, failed or diverged."""
    from repro.records import printed
    from repro.records.filters import parse_conditions, select_rows
    from repro.records.results import UNFINISHED, results

    table, conditions = results(paper, table=UNFINISHED), parse_conditions(where)
    if table.empty or not {each.column for each in conditions} <= {*table}:  # a condition on a result
        return
    if len(table := select_rows(table, conditions)):
        print("\nunfinished: no results, in no verdict; the same `repro run` continues them, but for diverged ones")
        print(printed.text(table[[column for column in OF_UNFINISHED if column in table]], index=False))
        ended = table[table["reason"].notna()]
        for run, reason in dict(zip(ended["run"], ended["reason"], strict=True)).items():
            print(one_line(f"{run}: {reason}"))


def cmd_compare(args: argparse.Namespace) -> None:
    from repro.records import printed
    from repro.records.comparison import NOTES
    from repro.records.results import compare

    with report_waiting("reading the runs", print_progress):
        both = compare(args.first, args.second, args.paper, args.where)
    if args.json:
        print_json(both)
    elif both.empty:
        print(one_line(f"nothing to compare {args.first} with {args.second}: {'; '.join(both.attrs[NOTES])}"))
    else:
        print(f"A: {args.first}, B: {args.second}; ms: time of an iteration, medians over seeds and their range")
        print(printed.text(both.drop(columns="warnings").dropna(axis=1, how="all"), index=False))
        for line in dict.fromkeys(both["warnings"].dropna()):
            print(one_line(line))


def print_json(table: pd.DataFrame) -> None:
    """Print a list of rows; missing values are null."""
    print(json.dumps(json.loads(table.to_json(orient="records", double_precision=15)), indent=1))


def format_experiments(runs: pd.DataFrame) -> str:
    """A table of runs for each experiment."""
    from repro.records.record_list import format_runs

    if runs.empty:
        return "no runs"
    groups = runs.groupby(["paper", "experiment"], sort=False)
    parts = [f"{one_line(f'{paper}/{name}')}\n{format_runs(group)}" for (paper, name), group in groups]
    return "\n\n".join(parts)
