"""`repro results`, `contribute`, `publish`, `verify`: finished runs as tables, in a file, and in the reference."""

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

from repro.cli.options import as_json
from repro.core.errors import FaultError, InputError, cannot, unknown
from repro.core.warnings import one_line

if TYPE_CHECKING:
    import pandas as pd

    from repro.records.catalogue import Found
    from repro.records.record import Record
    from repro.records.sweep import Sweep

NOT_COMMITTED = (".pdf", ".csv", ".tex")  # of a page: `repro report` makes them
LINK = re.compile(rf" \[[^\]]*\]\([^)]*(?:{'|'.join(map(re.escape, NOT_COMMITTED))})\)")  # to one of these
# what a terminal shows of a run; --csv and --json have every column
SHOWN = (
    "label",
    "testbed",
    "kind",
    "workers",
    "seed",
    "allreduce.auto",
    "step_s",
    "train_s",
    "peak_mb",
    "peak_of",
    "metric",
    "final",
    "origin",
)

APART = ("dataset", "scale", "breakdown")  # shown where runs of an experiment differ in them


def add(commands: Any) -> None:
    results = commands.add_parser("results", help="tabulate finished runs: yours and the committed ones")
    results.add_argument("paper", nargs="?", help="only this paper (default: all)")
    where(results)
    results.add_argument("--table", default="runs", help="runs (the default), points, rows or intervals")
    form = results.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV with all columns")
    form.add_argument("--json", action="store_true", help="print JSON: a list of rows")
    form.add_argument("--parquet", type=Path, metavar="FILE", help="write a Parquet file with all columns")
    results.set_defaults(command=cmd_results)

    compare = commands.add_parser("compare", help="compare two variants or strategies wherever both were run")
    compare.add_argument("first", help="a variant as `repro results` shows it, or a strategy")
    compare.add_argument("second")
    compare.add_argument("--paper", help="only this paper (default: all)")
    where(compare)
    as_json(compare)
    compare.set_defaults(command=cmd_compare)

    contribute = commands.add_parser("contribute", help="pack finished runs into one file, for publication elsewhere")
    contribute.add_argument("paper", help="paper, for instance gpu")
    contribute.add_argument("file", type=Path, help="zip file to write")
    where(contribute)
    contribute.set_defaults(command=cmd_contribute)

    publish = commands.add_parser("publish", help="move finished runs into the reference and rebuild the pages")
    publish.add_argument("paper", help="paper, for instance gtopk")
    publish.add_argument("--from", dest="archive", type=Path, metavar="FILE", help="publish the runs of this archive")
    where(publish)
    publish.set_defaults(command=cmd_publish)

    verify = commands.add_parser("verify", help="check the committed results and their verdicts")
    verify.add_argument("--write", action="store_true", help="publish today's verdicts and pages")
    verify.set_defaults(command=cmd_verify)


def where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--where", action="append", default=[], metavar="CONDITION", help="workers=4, step_s<0.1, ...")


def cmd_results(args: argparse.Namespace) -> None:
    from repro.core.atomic import write_atomically
    from repro.records import printed, tidy

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
        print(printed.csv(table), end="")
    else:
        print(shown(table) if args.table == "runs" else printed.text(table, index=False))


def cmd_compare(args: argparse.Namespace) -> None:
    from repro.records import comparison, printed

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
        print(f"A: {args.first}, B: {args.second}; ms: of an iteration, medians over seeds and their range")
        print(printed.text(both.dropna(axis=1, how="all"), index=False))


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
    from repro.records import printed

    parts = []
    for (paper, experiment), of in runs.groupby(["paper", "experiment"], sort=False):
        columns = [column for column in SHOWN if column in of and of[column].notna().any()]
        columns += [column for column in APART if of[column].nunique() > 1]
        table = of[columns].rename(columns={"label": "variant"})
        parts.append(one_line(f"{paper}/{experiment}") + f"\n{printed.text(table, index=False)}")
    return "\n\n".join(parts) or "no runs"


def papers(paper: str | None) -> list[str]:
    """Papers with finished runs, or the one that is named; InputError where it has none."""
    from repro.core.paths import results_root
    from repro.records import reference
    from repro.records.store import run_folders

    known = sorted({*reference.papers(), *(folder.parts[-3] for folder in run_folders(results_root()))})
    if paper is None:
        return known
    if paper not in known:
        raise unknown("paper with results", paper, known)
    return [paper]


def cmd_contribute(args: argparse.Namespace) -> None:
    from repro.core.paths import results_root
    from repro.records import archive
    from repro.records.store import run_folders

    runs = own_runs(args, "contribute")
    digest = archive.pack(args.file, runs)
    for run in runs:
        print(f"packed      {one_line(f'{run.name} ({run.hardware.class_})')}")
    for folder in run_folders(results_root(), args.paper, having=["events.jsonl"]):
        if not (folder / "summary.json").is_file():
            print(f"left out    {'/'.join(folder.parts[-2:])}: failed or unfinished", file=sys.stderr)
    print(f"{len(runs)} runs of {args.paper} in {args.file}; SHA-256 {digest}")
    print(f"to publish: repro publish {args.paper} --from {args.file.name}")


def cmd_publish(args: argparse.Namespace) -> None:
    from repro.core.paths import reference_root
    from repro.records import reference, sweep

    in_checkout("publish")
    new = own_runs(args, "publish") if args.archive is None else sent_runs(args)
    replaced = {what_it_is(run) for run in new}
    before = reference.read(args.paper)
    kept = [run for run in before if what_it_is(run) not in replaced]
    if args.archive is not None:
        made_on = {what_it_is(run): run.hardware.class_ for run in before}
        for run in new:
            mine = run.hardware.class_
            if (there := made_on.get(what_it_is(run), mine)) != mine:
                raise InputError(f"publish: {run.name} ran on {mine} and would replace a run on {there}; use --where")
    swept = own_sweeps(args)
    reference.write(args.paper, [*kept, *new], swept=sweep.together(reference.sweeps(args.paper), swept))
    print(f"published {len(new)} runs of {args.paper} in {reference_root() / args.paper}, kept {len(kept)}")
    print(f"published {len(swept)} sweeps over draws")
    render([args.paper])


def own_sweeps(args: argparse.Namespace) -> list[Sweep]:
    """Those of the workspace, of a whole paper; InputError for one that is unclean."""
    from repro.core.paths import results_root
    from repro.records import archive, catalogue

    if args.archive is not None or args.where:
        return []
    swept = [each for _, each in catalogue.sweeps(args.paper, results_root())]
    if wrong := archive.unclean([each.record for each in swept]):
        raise InputError(f"publish: {wrong[0]} was drawn by code that was not committed ({len(wrong)} such sweeps)")
    return swept


def own_runs(args: argparse.Namespace, command: str) -> list[Record]:
    """Those of the workspace that the arguments choose; InputError where there are none, or one is unclean."""
    from repro.core.paths import results_root
    from repro.records import archive, catalogue

    found = catalogue.runs(args.paper, results_root())
    if not found:
        raise unknown("paper with results of yours", args.paper, papers(None))
    own = [run.record for run in selected(found, args, command)]
    if wrong := archive.unclean(own):
        raise InputError(f"{command}: {wrong[0]} was made by code that was not committed ({len(wrong)} such runs)")
    return own


def sent_runs(args: argparse.Namespace) -> list[Record]:
    """Those of an archive that the arguments choose."""
    from repro.records import archive, catalogue

    sent = [run for run in archive.read(args.archive) if run.identity.paper == args.paper]
    if not sent:
        raise InputError(f"publish: {args.archive} has no runs of {args.paper}")
    found = [catalogue.Found("archive", args.archive, run) for run in sent]
    return [each.record for each in selected(found, args, "publish")]


def selected(found: Sequence[Found], args: argparse.Namespace, command: str) -> list[Found]:
    """Of these runs those of `where`; InputError where it leaves none."""
    from repro.records import catalogue
    from repro.records.selection import chosen

    if not args.where:  # pandas is not everywhere
        return list(found)
    names = set(chosen(catalogue.table("runs", found), args.where)["run"])
    if not names:
        raise InputError(f"{command}: no run of {args.paper} matches --where {' '.join(args.where)}")
    return [run for run in found if run.record.name in names]


def in_checkout(command: str) -> None:
    """InputError where there is nothing that results and pages could be committed to."""
    from repro.core.paths import is_checkout

    if not is_checkout():
        raise InputError(f"{command}: only a checkout of the project has a reference to publish to")


def what_it_is(record: Record) -> tuple[Any, ...]:
    """What a published run is the only one of."""
    own = record.identity
    return own.experiment, own.variant, own.testbed.name, own.seed, own.breakdown, own.scale


def render(papers: Sequence[str]) -> None:
    """The committed pages, and the verdicts of these papers, from the reference alone."""
    from repro.answers.claims import published_verdicts
    from repro.answers.pages.build import PAPERS, build
    from repro.answers.pages.built import FOLDER
    from repro.core.paths import PROJECT, reference_root

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
    from repro.answers.claims import published_verdicts
    from repro.answers.pages.build import PAPERS
    from repro.cli import workloads
    from repro.core.paths import PROJECT, reference_root
    from repro.records import reference

    readme = PROJECT / "README.md"
    of_readme = readme.is_file() and reference_root() == (PROJECT / "results" / "reference").resolve()
    cut_off = [paper for paper in reference.papers() if reference.unsettled(reference_root() / paper)]
    if args.write:
        in_checkout("verify --write")
        for paper in cut_off:
            reference.settle(reference_root() / paper)
        render(reference.papers())
        if of_readme:
            workloads.write(readme, reference_root())
    elif cut_off:
        raise FaultError(f"verify: a publish of {', '.join(cut_off)} was interrupted; run `repro verify --write`")
    wrong = 0
    for paper in reference.papers():
        tables = reference.check(reference_root() / paper)
        line = f"{paper}: {len(tables['runs'])} runs, tables unchanged"
        if paper in PAPERS:
            count, different = published_verdicts.differences(paper)
            wrong += len(different)
            line += f"; {count} verdicts, {len(different) or 'none'} changed"
            for each in different:
                print(f"{paper}: {each}")
        print(line)
    if wrong:
        raise FaultError(f"verify: {wrong} verdicts changed; `repro verify --write` publishes today's")
    if of_readme and workloads.different(readme, reference_root()):
        raise FaultError("verify: README's table of workloads is outdated; `repro verify --write` writes it")
