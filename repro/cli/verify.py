"""`repro verify`: check that committed results are unchanged, and that repeated runs have the same numbers."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from repro.cli.publishing import in_checkout, lock_reference, render_pages
from repro.core.errors import FaultError, InputError
from repro.core.terminal import one_line
from repro.core.worker_processes import open_processes

if TYPE_CHECKING:
    from repro.cli.accuracy_matrix import Row

SHOWN = 3  # maximum number of printed differences of a run


def add_commands(commands: Any) -> None:
    verify = commands.add_parser("verify", help="check the committed results and their verdicts")
    verify.add_argument("paper", nargs="?", help="with --rerun: only this paper (default: all)")
    does = verify.add_mutually_exclusive_group()
    does.add_argument("--write", action="store_true", help="publish today's verdicts and pages")
    does.add_argument("--rerun", action="store_true", help="repeat cheap simulated runs and compare every number")
    verify.set_defaults(command=cmd_verify)


def cmd_verify(args: argparse.Namespace) -> None:
    if args.rerun:
        rerun_sample(args.paper)
    elif args.paper:
        raise InputError(f"verify {args.paper}: all papers are checked together; --rerun takes one")
    else:
        check_published(args.write)


def check_published(write: bool) -> None:
    """FaultError if tables, verdicts or the table of workloads differ from the published ones."""
    from repro.answers.pages import readme_table
    from repro.cli import accuracy_matrix, workloads
    from repro.cli.workloads import is_outdated, markdown_table, write_table
    from repro.core.paths import PROJECT, reference_root
    from repro.records import reference

    readme, gpu_page = PROJECT / "README.md", PROJECT / workloads.PAGE
    committed = readme.is_file() and reference_root() == (PROJECT / "results" / "reference").resolve()
    interrupted = [paper for paper in reference.papers() if reference.unfinished_publish(reference_root() / paper)]
    if write:
        in_checkout("verify --write")
        with lock_reference("verify --write"):
            for paper in interrupted:
                reference.finish_publish(reference_root() / paper)
            render_pages(reference.papers())
            if committed:
                write_table(gpu_page, workloads.NAME, workloads.workloads_table(reference_root()))
                counts, table = readme_table.describe_papers(reference_root())
                write_table(readme, readme_table.NAME, f"{counts}\n\n{markdown_table(table)}")
    elif interrupted:
        raise FaultError(f"verify: a publish of {', '.join(interrupted)} was interrupted; run `repro verify --write`")
    changed, papers, rows = 0, reference.papers(), []
    with open_processes(len(papers), ["repro.answers.claims.published_verdicts"]) as start:
        for result in [start(verify_paper, paper) for paper in papers]:
            line, different, of_matrix = result()
            changed += len(different)
            rows += of_matrix
            print(*different, line, sep="\n")
    if changed:
        raise FaultError(f"verify: {changed} verdicts changed; `repro verify --write` publishes the new ones")
    accuracy_page, matrix = PROJECT / accuracy_matrix.PAGE, accuracy_matrix.matrix_table(rows)
    if committed and write:
        write_table(accuracy_page, accuracy_matrix.NAME, matrix)
    if committed and is_outdated(accuracy_page, accuracy_matrix.NAME, matrix):
        raise FaultError(f"verify: the table of {accuracy_matrix.PAGE} is outdated; `repro verify --write` writes it")
    if committed and is_outdated(gpu_page, workloads.NAME, workloads.workloads_table(reference_root())):
        raise FaultError(f"verify: the table of {workloads.PAGE} is outdated; `repro verify --write` writes it")


def verify_paper(paper: str) -> tuple[str, list[str], list[Row]]:
    """A line on a paper's tables and verdicts, a line for each verdict that is not the published one, and the paper's
    rows of the matrix of accuracies."""
    from repro.answers.claims import published_verdicts
    from repro.answers.pages import overview
    from repro.answers.tables import results
    from repro.cli import accuracy_matrix
    from repro.core.paths import reference_root
    from repro.records import reference

    line = f"{paper}: {reference.count_runs(reference_root() / paper)} runs, tables unchanged"
    if paper not in overview.papers():
        return line, [], []
    read = results.read(paper, reference_root())
    count, different = published_verdicts.find_differences(paper, read)
    line += f"; {count} verdicts, {len(different) or 'none'} changed"
    rows = accuracy_matrix.matrix_rows(read) if accuracy_matrix.tested_claims(read.file.claims) else []
    return line, [f"{paper}: {each}" for each in different], rows


def rerun_sample(paper: str | None) -> None:
    """Repeat a sample of the committed simulated runs; FaultError if one has other numbers."""
    from repro.launch import rerun
    from repro.records import catalogue, reference

    published = [run for name in catalogue.papers(paper) for run in reference.read(name)]
    chosen = rerun.sample_runs(published)
    if not chosen:
        raise InputError("verify --rerun: no simulated run of the reference is cheap enough")
    done = rerun.rerun_records(chosen)
    for each in done:
        name = one_line(f"{each.record.identity.paper}/{each.record.name}")
        if each.left_out:
            print(f"not repeated  {name}: {each.left_out}", file=sys.stderr)
        for difference in each.different[:SHOWN]:
            print(f"different     {name}: {one_line(difference)}")
        if len(each.different) > SHOWN:
            print(f"different     {name}: and {len(each.different) - SHOWN} more numbers")
    different = sum(bool(each.different) for each in done)
    repeated = sum(not each.left_out for each in done)
    if different:
        raise FaultError(f"verify: {different} of {repeated} repeated runs have other numbers than published")
    print(
        f"{repeated} of {len(published)} runs repeated (the cheapest simulated one of each strategy), all numbers equal"
    )
