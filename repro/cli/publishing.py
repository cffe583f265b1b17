"""`repro contribute`, `repro publish`: pack runs into files, and move them into the reference and among kept runs."""

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

from repro.cli.options import new_file
from repro.cli.results import add_where
from repro.core.errors import InputError
from repro.core.paths import EVENTS_FILE, RECORD_FILE
from repro.core.terminal import one_line, warn

if TYPE_CHECKING:
    from repro.records.archive import CutOff
    from repro.records.record import Found, Record
    from repro.records.sweep import Sweep

NOT_COMMITTED = (".pdf", ".csv", ".tex", "-narrow.png")  # files of a page that `repro report` makes
LINK = re.compile(rf" \[[^\]]*\]\([^)]*(?:{'|'.join(map(re.escape, NOT_COMMITTED))})\)")  # to one of them
ALL = "all"  # in the place of a paper
LOCK = "publish.lock"  # in the folder of the reference


def add_commands(commands: Any) -> None:
    text = "pack finished runs, and unfinished ones with their checkpoints, for publication elsewhere"
    contribute = commands.add_parser("contribute", help=text)
    contribute.add_argument("paper", help="paper, for instance gpu; all: of every paper")
    contribute.add_argument("file", type=new_file, help="zip file to write; large checkpoints go to NAME-2.zip, ...")
    add_where(contribute)
    contribute.set_defaults(command=cmd_contribute)

    publish = commands.add_parser("publish", help="move finished runs into the reference and rebuild the pages")
    publish.add_argument("paper", help="paper, for instance gtopk")
    text = "publish the runs of these archives, and keep the unfinished ones for `repro run` to continue"
    publish.add_argument("--from", dest="archives", type=Path, nargs="+", default=[], metavar="FILE", help=text)
    text = "replace runs on other hardware by the archive's, and sweeps of more draws by yours"
    publish.add_argument("--replace", action="store_true", help=text)
    add_where(publish)
    publish.set_defaults(command=cmd_publish)


def cmd_contribute(args: argparse.Namespace) -> None:
    packed, files = write_archives(args.paper, args.where, args.file)
    for line in packed:
        print(line)
    for path, digest in files.items():
        print(f"{path}; SHA-256 {digest}")
    names = " ".join(path.name for path in files)
    print(f"to publish: repro publish {args.paper if args.paper != ALL else 'PAPER'} --from {names}")


def cmd_publish(args: argparse.Namespace) -> None:
    in_checkout("publish")
    swept = own_sweeps(args)
    if args.archives:
        new, cut_off = sent_runs(args)
    else:
        new, cut_off = own_runs(args.paper, args.where, "publish", beside=swept), []
    with lock_reference("publish"):
        keep_unfinished(args.paper, new, cut_off)
        if new or swept:
            put_into_reference(args, new, swept)
            remove_finished(new)
            render_pages([args.paper])


def write_archives(paper: str, where: Sequence[str], file: Path) -> tuple[list[str], dict[Path, str]]:
    """Write the archives of a paper's runs, or of ALL; returns a line for each run, and the SHA-256 of each file. Runs
    that cannot be packed are named on stderr."""
    from repro.core.paths import results_root
    from repro.launch.resumable import cut_off_runs
    from repro.records import archive
    from repro.records.store import run_folders

    every = run_folders(results_root(), having=[EVENTS_FILE, RECORD_FILE])
    papers = sorted({folder.parts[-3] for folder in every}) if paper == ALL else [paper]
    unfinished, left_out = cut_off_runs(papers)
    if where:  # selects finished runs
        unfinished = []
    other = unfinished or left_out or paper == ALL
    runs = [run for each in papers for run in own_runs(each, where, "contribute", beside=other)]
    files = archive.pack(file, runs, unfinished) if runs or unfinished else {}
    for line in left_out:
        print(f"left out    {one_line(line)}", file=sys.stderr)
    if not files:
        raise InputError("contribute: no run of yours can be packed")
    lines = [f"packed      {one_line(f'{run.name} ({run.hardware.class_})')}" for run in runs]
    for run, *_ in unfinished:
        lines.append(f"packed      {one_line(run.name)}, unfinished at iteration {run.iteration} of {run.iterations}")
    lines.append(f"{len(runs)} runs of {paper}, and {len(unfinished)} unfinished")
    return lines, files


def keep_unfinished(paper: str, new: Sequence[Record], cut_off: Sequence[CutOff]) -> None:
    """Keep the unfinished runs of archives, but for those whose finished run is published now or was before."""
    from repro.records import kept, reference

    finished = {run.provenance.get("resume_key") for run in [*reference.read(paper), *new]}
    for line in kept.keep([each for each in cut_off if each.run.resume_key not in finished]):
        print(f"unfinished  {one_line(line)}")


def remove_finished(runs: Sequence[Record]) -> None:
    """Remove the kept unfinished runs that finished."""
    from repro.records import kept

    for path in kept.remove(str(run.provenance.get("resume_key") or "") for run in runs):
        print(f"removed     {path}: its run is published")


def put_into_reference(args: argparse.Namespace, new: Sequence[Record], swept: Sequence[Sweep]) -> None:
    """Write runs and sweeps into the reference; they replace runs of the same `place_and_seed`, and sweeps of the same
    `place` with no more draws."""
    from repro.core.paths import reference_root
    from repro.records import reference, sweep
    from repro.records.variants import place_and_seed

    replaced = {place_and_seed(run) for run in new}
    before = reference.read(args.paper)
    kept = [run for run in before if place_and_seed(run) not in replaced]
    if args.archives and not args.replace:
        hardware = {place_and_seed(run): run.hardware.class_ for run in before}
        for run in new:
            mine = run.hardware.class_
            if (theirs := hardware.get(place_and_seed(run), mine)) != mine:
                raise InputError(
                    f"publish: {run.name} ran on {mine} and would replace a run on {theirs}; use --replace or --where"
                )
    drawn = reference.sweeps(args.paper)
    shorter = [] if args.replace else sweep.find_shorter(drawn, swept)
    left_out = {each.name for each, _ in shorter}
    swept = [each for each in swept if each.name not in left_out]
    reference.write(args.paper, [*kept, *new], swept=sweep.newest_sweeps(drawn, swept))
    print(f"published {len(new)} runs of {args.paper} in {reference_root() / args.paper}, kept {len(kept)}")
    if swept:
        print(f"published {len(swept)} sweeps over draws")
    for drawn_here, longer in shorter:
        has = (
            f"{drawn_here.name} has {len(drawn_here.draws)} draws, the published {longer.name} has {len(longer.draws)}"
        )
        print(f"left out    {one_line(has)}: draw more, or --replace", file=sys.stderr)


def own_sweeps(args: argparse.Namespace) -> list[Sweep]:
    """A paper's sweeps in the workspace, unless runs are selected; InputError for one of uncommitted code."""
    from repro.core.paths import results_root
    from repro.records import archive, catalogue

    if args.archives or args.where:
        return []
    swept = [each for _, each in catalogue.sweeps(args.paper, results_root())]
    if wrong := archive.unclean([each.record for each in swept]):
        raise InputError(f"publish: {wrong[0]} was drawn by code that was not committed ({len(wrong)} such sweeps)")
    return swept


def own_runs(paper: str, where: Sequence[str], command: str, beside: object = None) -> list[Record]:
    """The selected runs of the workspace; InputError for one of uncommitted code, or if there are neither runs nor
    what else the command takes (`beside`)."""
    from repro.core.paths import results_root
    from repro.records import archive, catalogue

    runs = catalogue.runs(paper, results_root())
    if not runs and beside:
        return []
    if not runs:
        [paper] = catalogue.papers(paper)  # InputError for an unknown one
        raise InputError(f"{command} {paper}: no finished runs in {results_root()}; repro run {paper} makes them")
    records = [run.record for run in select_runs(runs, paper, where, command)]
    if wrong := archive.unclean(records):
        raise InputError(f"{command}: {wrong[0]} was made by code that was not committed ({len(wrong)} such runs)")
    return records


def sent_runs(args: argparse.Namespace) -> tuple[list[Record], list[CutOff]]:
    """The selected runs of the archives, of copies the newest, and without a selection their unfinished runs."""
    from repro.records import archive, variants
    from repro.records.record import Found

    contents = [archive.read(path) for path in args.archives]
    finished = [run for content in contents for run in content.finished if run.identity.paper == args.paper]
    cut_off = [each for content in contents for each in content.unfinished if each.run.identity.paper == args.paper]
    if not finished and not cut_off:
        raise InputError(f"publish: {', '.join(map(str, args.archives))}: no runs of {args.paper}")
    runs = variants.newest([Found("archive", run) for run in finished], lambda run: run.record.name)
    chosen = select_runs(runs, args.paper, args.where, "publish")
    return [run.record for run in chosen], [] if args.where else cut_off


def select_runs(runs: Sequence[Found], paper: str, where: Sequence[str], command: str) -> list[Found]:
    """The runs that match `--where`; InputError if none do."""
    from repro.records.filters import select_rows
    from repro.records.tables import build_table

    if not where:  # without pandas, which not every machine has
        return list(runs)
    names = set(select_rows(build_table("runs", runs), where)["run"])
    if not names:
        raise InputError(f"{command}: no run of {paper} matches --where {' '.join(where)}")
    return [run for run in runs if run.record.name in names]


def in_checkout(command: str) -> None:
    """InputError in an installed package, which has no reference to publish to."""
    from repro.core.paths import is_checkout

    if not is_checkout():
        raise InputError(f"{command}: only a checkout of the project has a reference to publish to")


@contextmanager
def lock_reference(command: str) -> Iterator[None]:
    """Lock the reference; InputError if another command writes it, because one would lose the other's runs."""
    from repro.core import locks, safe_files
    from repro.core.paths import reference_root

    safe_files.make_folder(reference_root())
    path = reference_root() / LOCK
    if (lock := locks.take_lock(path)) is None:
        raise InputError(
            f"{command}: {locks.lock_users(path)} is writing {reference_root()}; try again when it has ended"
        )
    with lock:
        yield


def render_pages(papers: Sequence[str]) -> None:
    """Build the committed pages, write the verdicts of these papers, and describe the reference as an RO-Crate, from
    the reference alone."""
    from repro.answers.claims import published_verdicts
    from repro.answers.pages import overview
    from repro.answers.pages.build import build
    from repro.answers.pages.built import FOLDER
    from repro.core.paths import PROJECT, reference_root
    from repro.records import crate, rebased

    rebased.write_rebased(reference_root())
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
            published_verdicts.write_verdicts(paper)
    try:
        crate.write_crate(reference_root())
    except ImportError:  # an optional package, as for all that read only
        warn(f"{reference_root()}: its RO-Crate is as before; pip install 'repro-harness[archive]'")
