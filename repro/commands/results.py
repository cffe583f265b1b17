"""`repro results`, `repro publish`, `repro verify`: finished runs as tables, and those that are the reference."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.commands.options import as_json
from repro.common.errors import FaultError, InputError, cannot, unknown

if TYPE_CHECKING:
    import pandas as pd

NOT_COMMITTED = (".pdf", ".csv", ".tex")  # of a page: `repro report` makes them
LINK = re.compile(rf" \[[^\]]*\]\([^)]*(?:{'|'.join(map(re.escape, NOT_COMMITTED))})\)")  # to one of these
# what a terminal shows of a run; --csv and --json have every column
SHOWN = (
    "variant",
    "testbed",
    "kind",
    "workers",
    "seed",
    "allreduce.auto",
    "step_s",
    "train_s",
    "metric",
    "final",
    "origin",
)


def add(commands: Any) -> None:
    results = commands.add_parser("results", help="finished runs as a table: yours and the committed ones")
    results.add_argument("paper", nargs="?", help="of one paper (default: all)")
    where(results)
    results.add_argument("--table", default="runs", help="runs (the default), points, rows or intervals")
    form = results.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="as CSV, all columns")
    form.add_argument("--json", action="store_true", help="as JSON, a list of rows")
    form.add_argument("--parquet", type=Path, metavar="FILE", help="into a Parquet file, all columns")
    results.set_defaults(command=cmd_results)

    compare = commands.add_parser("compare", help="two variants or strategies, wherever both were run")
    compare.add_argument("first", help="a variant as `repro results` shows it, or a strategy")
    compare.add_argument("second")
    compare.add_argument("--paper", help="of one paper (default: all)")
    where(compare)
    as_json(compare)
    compare.set_defaults(command=cmd_compare)

    publish = commands.add_parser("publish", help="move finished runs into the reference, with the page's pictures")
    publish.add_argument("paper", help="whose runs")
    where(publish)
    publish.set_defaults(command=cmd_publish)

    verify = commands.add_parser("verify", help="are the committed results, and the verdicts on them, as published?")
    verify.add_argument("--write", action="store_true", help="publish today's verdicts and pages of them")
    verify.set_defaults(command=cmd_verify)


def where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--where", action="append", default=[], metavar="CONDITION", help="workers=4, step_s<0.1, ...")


def cmd_results(args: argparse.Namespace) -> None:
    from repro.common.atomic import write_atomically
    from repro.records import tidy

    if args.table not in tidy.TABLES:
        raise unknown("--table", args.table, tidy.TABLES)
    table = rows(args.table, args)
    if args.parquet:
        try:
            write_atomically(args.parquet, table.to_parquet(None, index=False))
        except OSError as error:
            raise cannot("write", args.parquet, error) from None
    elif args.json:
        print_json(table)
    elif args.csv:
        print(table.to_csv(index=False), end="")
    else:
        print(shown(table) if args.table == "runs" else table.to_string(index=False))


def cmd_compare(args: argparse.Namespace) -> None:
    from repro.records import comparison

    table = rows("runs", args)
    for name in (args.first, args.second):
        if name not in (known := {*table["variant"], *table["strategy"]}):
            raise unknown("variant or strategy with results", name, known, most=5, all_of="repro results")
    both = comparison.compare(table, args.first, args.second)
    if args.json:
        print_json(both)
    elif both.empty:
        print(f"no experiment has runs of {args.first} and of {args.second} on one testbed at one scale")
    else:
        print(f"A: {args.first}, B: {args.second}; ms: of an iteration, medians over seeds")
        print(comparison.text(both, index=False))


def rows(table: str, args: argparse.Namespace) -> pd.DataFrame:
    """What the arguments `paper` and `where` choose of a table."""
    from repro.records import catalogue
    from repro.records.selection import chosen

    found = [run for paper in papers(args.paper) for run in catalogue.runs(paper)]
    return chosen(catalogue.table(table, found), args.where)


def print_json(table: pd.DataFrame) -> None:
    """A list of rows; what is not there is null."""
    print(json.dumps(json.loads(table.to_json(orient="records", double_precision=15)), indent=1))


def shown(runs: pd.DataFrame) -> str:
    """Runs for people: a table an experiment."""
    parts = []
    for (paper, experiment), of in runs.groupby(["paper", "experiment"], sort=False):
        columns = [column for column in SHOWN if column in of and of[column].notna().any()]
        parts.append(f"{paper}/{experiment}\n{of[columns].to_string(index=False, na_rep='-')}")
    return "\n\n".join(parts) or "no runs"


def papers(paper: str | None) -> list[str]:
    """Papers with finished runs, or the one that is named; InputError where it has none."""
    from repro.common.paths import results_root
    from repro.records import reference
    from repro.records.store import run_folders

    known = sorted({*reference.papers(), *(folder.parts[-3] for folder in run_folders(results_root()))})
    if paper is None:
        return known
    if paper not in known:
        raise unknown("paper with results", paper, known)
    return [paper]


def cmd_publish(args: argparse.Namespace) -> None:
    from repro.common.paths import reference_root, results_root
    from repro.experiment.files import read_yaml
    from repro.records import catalogue, reference, tidy
    from repro.records.selection import chosen

    in_checkout("publish")
    own = {tidy.name(run.summary): run for run in catalogue.runs(args.paper, results_root())}
    if not own:
        raise unknown("paper with results of yours", args.paper, papers(None))
    names = list(chosen(catalogue.table("runs", list(own.values())), args.where)["run"])
    if not names:
        raise InputError(f"publish: no run of {args.paper} is one of --where {' '.join(args.where)}")
    unclean = [name for name in names if own[name].summary["provenance"].get("dirty") is not False]
    if unclean:
        raise InputError(f"publish: {unclean[0]} was made by code that was not committed ({len(unclean)} such runs)")
    new = [reference.Published(own[name].summary, read_yaml(own[name].path.with_name("config.yaml"))) for name in names]
    replaced = {what_it_is(run.summary) for run in new}
    kept = [run for run in reference.read(args.paper) if what_it_is(run.summary) not in replaced]
    reference.write(args.paper, [*kept, *new])
    print(f"{len(new)} runs of {args.paper} are in {reference_root() / args.paper}, {len(kept)} as they were")
    render([args.paper])


def in_checkout(command: str) -> None:
    """InputError where there is nothing that results and pages could be committed to."""
    from repro.common.paths import is_checkout

    if not is_checkout():
        raise InputError(f"{command}: only a checkout of the project has a reference to publish to")


def what_it_is(summary: dict[str, Any]) -> tuple[Any, ...]:
    """What a published run is the only one of."""
    return tuple(summary.get(name) for name in ("experiment", "setting", "testbed", "seed", "breakdown", "scale"))


def render(papers: Sequence[str]) -> None:
    """The committed pages, and the verdicts of these papers, from the reference alone."""
    from repro.common.paths import PROJECT, reference_root
    from repro.reports import published_verdicts
    from repro.reports.build import PAPERS, build
    from repro.reports.built import FOLDER

    out = PROJECT / "reports" / "out"
    with tempfile.TemporaryDirectory() as built:
        build(None, reference_root(), Path(built), lambda line: print(line, file=sys.stderr, flush=True))
        for path in Path(built).glob("*.md"):
            path.write_text(LINK.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        left = (FOLDER, *(f"*{suffix}" for suffix in NOT_COMMITTED))
        shutil.copytree(built, out, ignore=shutil.ignore_patterns(*left))
    for paper in papers:
        if paper in PAPERS:
            published_verdicts.write(paper)


def cmd_verify(args: argparse.Namespace) -> None:
    from repro.common.paths import reference_root
    from repro.records import reference
    from repro.reports import published_verdicts
    from repro.reports.build import PAPERS

    if args.write:
        in_checkout("verify --write")
        render(reference.papers())
    wrong = 0
    for paper in reference.papers():
        tables = reference.check(reference_root() / paper)
        line = f"{paper}: {len(tables['runs'])} runs, tables as published"
        if paper in PAPERS:
            count, different = published_verdicts.differences(paper)
            wrong += len(different)
            line += f"; {count} verdicts, {len(different) or 'none'} of them different"
            for each in different:
                print(f"{paper}: {each}")
        print(line)
    if wrong:
        raise FaultError(f"verify: {wrong} verdicts are not as published; `repro verify --write` publishes today's")
