"""`repro contribute`, `repro publish`: pack finished runs into a file, and move them into the reference."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.cli.results import where
from repro.core.errors import InputError, unknown
from repro.core.warnings import one_line

if TYPE_CHECKING:
    from repro.records.catalogue import Found
    from repro.records.record import Record
    from repro.records.sweep import Sweep

NOT_COMMITTED = (".pdf", ".csv", ".tex")  # files of a page that `repro report` makes
LINK = re.compile(rf" \[[^\]]*\]\([^)]*(?:{'|'.join(map(re.escape, NOT_COMMITTED))})\)")  # to one of them
LOCK = "publish.lock"  # in the folder of the reference


def add(commands: Any) -> None:
    contribute = commands.add_parser("contribute", help="pack finished runs into one file, for publication elsewhere")
    contribute.add_argument("paper", help="paper, for instance gpu")
    contribute.add_argument("file", type=Path, help="zip file to write")
    where(contribute)
    contribute.set_defaults(command=cmd_contribute)

    publish = commands.add_parser("publish", help="move finished runs into the reference and rebuild the pages")
    publish.add_argument("paper", help="paper, for instance gtopk")
    publish.add_argument("--from", dest="archive", type=Path, metavar="FILE", help="publish the runs of this archive")
    publish.add_argument("--replace", action="store_true", help="replace runs on other hardware by the archive's")
    where(publish)
    publish.set_defaults(command=cmd_publish)


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
    in_checkout("publish")
    swept = own_sweeps(args)
    new = sent_runs(args) if args.archive is not None else own_runs(args, "publish", beside=swept)
    with alone("publish"):
        put(args, new, swept)
        render([args.paper])


def put(args: argparse.Namespace, new: Sequence[Record], swept: Sequence[Sweep]) -> None:
    """Write runs and sweeps into the reference; they replace runs of the same `place_of`."""
    from repro.core.paths import reference_root
    from repro.records import reference, sweep

    replaced = {place_of(run) for run in new}
    before = reference.read(args.paper)
    kept = [run for run in before if place_of(run) not in replaced]
    if args.archive is not None and not args.replace:
        hardware = {place_of(run): run.hardware.class_ for run in before}
        for run in new:
            mine = run.hardware.class_
            if (theirs := hardware.get(place_of(run), mine)) != mine:
                raise InputError(
                    f"publish: {run.name} ran on {mine} and would replace a run on {theirs}; use --replace or --where"
                )
    reference.write(args.paper, [*kept, *new], swept=sweep.together(reference.sweeps(args.paper), swept))
    print(f"published {len(new)} runs of {args.paper} in {reference_root() / args.paper}, kept {len(kept)}")
    if swept:
        print(f"published {len(swept)} sweeps over draws")


def own_sweeps(args: argparse.Namespace) -> list[Sweep]:
    """A paper's sweeps in the workspace, unless runs are selected; InputError for one of uncommitted code."""
    from repro.core.paths import results_root
    from repro.records import archive, catalogue

    if args.archive is not None or args.where:
        return []
    swept = [each for _, each in catalogue.sweeps(args.paper, results_root())]
    if wrong := archive.unclean([each.record for each in swept]):
        raise InputError(f"publish: {wrong[0]} was drawn by code that was not committed ({len(wrong)} such sweeps)")
    return swept


def own_runs(args: argparse.Namespace, command: str, beside: Sequence[Sweep] = ()) -> list[Record]:
    """The selected runs of the workspace; InputError for one of uncommitted code, or if there are no runs and no
    sweeps (`beside`)."""
    from repro.core.paths import results_root
    from repro.records import archive, catalogue

    runs = catalogue.runs(args.paper, results_root())
    if not runs and beside:
        return []
    if not runs:
        raise unknown("paper with results of yours", args.paper, catalogue.papers())
    own = [run.record for run in selected(runs, args, command)]
    if wrong := archive.unclean(own):
        raise InputError(f"{command}: {wrong[0]} was made by code that was not committed ({len(wrong)} such runs)")
    return own


def sent_runs(args: argparse.Namespace) -> list[Record]:
    """The selected runs of an archive."""
    from repro.records import archive, catalogue

    runs = [run for run in archive.read(args.archive) if run.identity.paper == args.paper]
    if not runs:
        raise InputError(f"publish: {args.archive} has no runs of {args.paper}")
    return [each.record for each in selected([catalogue.Found("archive", run) for run in runs], args, "publish")]


def selected(runs: Sequence[Found], args: argparse.Namespace, command: str) -> list[Found]:
    """The runs that match `--where`; InputError if none do."""
    from repro.records import catalogue
    from repro.records.selection import chosen

    if not args.where:  # without pandas, which not every machine has
        return list(runs)
    names = set(chosen(catalogue.table("runs", runs), args.where)["run"])
    if not names:
        raise InputError(f"{command}: no run of {args.paper} matches --where {' '.join(args.where)}")
    return [run for run in runs if run.record.name in names]


def in_checkout(command: str) -> None:
    """InputError in an installed package, which has no reference to publish to."""
    from repro.core.paths import is_checkout

    if not is_checkout():
        raise InputError(f"{command}: only a checkout of the project has a reference to publish to")


@contextmanager
def alone(command: str) -> Iterator[None]:
    """Lock the reference; InputError if another command writes it, because one would lose the other's runs."""
    from repro.core import locks, safe_files
    from repro.core.paths import reference_root

    safe_files.make_folder(reference_root())
    path = reference_root() / LOCK
    if (lock := locks.take(path)) is None:
        raise InputError(f"{command}: {locks.users(path)} is writing {reference_root()}; try again when it has ended")
    with lock:
        yield


def place_of(record: Record) -> tuple[Any, ...]:
    """The values that identify a published run: the reference has one run for each."""
    own = record.identity
    return own.experiment, own.variant, own.testbed.name, own.seed, own.breakdown, own.scale


def render(papers: Sequence[str]) -> None:
    """Build the committed pages, and write the verdicts of these papers, from the reference alone."""
    from repro.answers.claims import published_verdicts
    from repro.answers.pages import overview
    from repro.answers.pages.build import build
    from repro.answers.pages.built import FOLDER
    from repro.core.paths import PROJECT, reference_root

    out = PROJECT / "reports" / "out"
    with tempfile.TemporaryDirectory() as built:
        build(None, reference_root(), Path(built), lambda line: print(line, file=sys.stderr, flush=True))
        for path in Path(built).glob("*.md"):
            path.write_text(LINK.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        ignored = (FOLDER, *(f"*{suffix}" for suffix in NOT_COMMITTED))
        shutil.copytree(built, out, ignore=shutil.ignore_patterns(*ignored))
    for paper in papers:
        if paper in overview.papers():
            published_verdicts.write(paper)
