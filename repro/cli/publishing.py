"""`repro contribute`, `publish`: finished runs into a file, and into the reference."""

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

NOT_COMMITTED = (".pdf", ".csv", ".tex")  # of a page: `repro report` makes them
LINK = re.compile(rf" \[[^\]]*\]\([^)]*(?:{'|'.join(map(re.escape, NOT_COMMITTED))})\)")  # to one of these
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
    """Put runs into the reference, in the place of those that they are, and sweeps beside those that are there."""
    from repro.core.paths import reference_root
    from repro.records import reference, sweep

    replaced = {what_it_is(run) for run in new}
    before = reference.read(args.paper)
    kept = [run for run in before if what_it_is(run) not in replaced]
    if args.archive is not None:
        made_on = {what_it_is(run): run.hardware.class_ for run in before}
        for run in new:
            mine = run.hardware.class_
            if (there := made_on.get(what_it_is(run), mine)) != mine:
                raise InputError(f"publish: {run.name} ran on {mine} and would replace a run on {there}; use --where")
    reference.write(args.paper, [*kept, *new], swept=sweep.together(reference.sweeps(args.paper), swept))
    print(f"published {len(new)} runs of {args.paper} in {reference_root() / args.paper}, kept {len(kept)}")
    if swept:
        print(f"published {len(swept)} sweeps over draws")


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


def own_runs(args: argparse.Namespace, command: str, beside: Sequence[Sweep] = ()) -> list[Record]:
    """Those of the workspace that the arguments choose; InputError where one is unclean, or there are none and no
    sweeps beside them."""
    from repro.core.paths import results_root
    from repro.records import archive, catalogue

    found = catalogue.runs(args.paper, results_root())
    if not found:
        if beside:
            return []
        raise unknown("paper with results of yours", args.paper, catalogue.papers())
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
    found = [catalogue.Found("archive", run) for run in sent]
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


@contextmanager
def alone(command: str) -> Iterator[None]:
    """InputError where another command writes the reference: of two publishes the second would lose the first's
    runs."""
    from repro.core import locks, safe_files
    from repro.core.paths import reference_root

    safe_files.make_folder(reference_root())
    path = reference_root() / LOCK
    if (lock := locks.take(path)) is None:
        raise InputError(f"{command}: {locks.users(path)} is writing {reference_root()}; try again when it has ended")
    with lock:
        yield


def what_it_is(record: Record) -> tuple[Any, ...]:
    """What a published run is the only one of."""
    own = record.identity
    return own.experiment, own.variant, own.testbed.name, own.seed, own.breakdown, own.scale


def render(papers: Sequence[str]) -> None:
    """The committed pages, and the verdicts of these papers, from the reference alone."""
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
        left = (FOLDER, *(f"*{suffix}" for suffix in NOT_COMMITTED))
        shutil.copytree(built, out, ignore=shutil.ignore_patterns(*left))
    for paper in papers:
        if paper in overview.papers():
            published_verdicts.write(paper)
