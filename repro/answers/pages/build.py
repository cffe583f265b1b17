"""Build pages from results alone: `repro.answers.pages.build.build()`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from repro.answers import collecting
from repro.answers.pages import built, overview
from repro.answers.pages.built import Built
from repro.answers.pages.files import Files
from repro.core import config_folders, error_location, safe_files
from repro.core.errors import InputError, unknown
from repro.core.not_none import not_none
from repro.core.paths import REPORTS, reference_root, reports_root
from repro.core.warnings import warn

GENERATED = {".png", ".pdf", ".csv", ".json", ".tex"}
# what pages are built with, and is imported once for all processes
IMPORTED = ("repro.answers.pages.paper_page", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "pyarrow.parquet",
            "jinja2", "markdown_it", "tabulate")  # fmt: skip


def build(
    paper: str | None = None, results: Path | None = None, out: Path | None = None,
    say: Callable[[str], None] = lambda line: None, pdf: bool = False, meanwhile: Callable[[], None] = lambda: None,
) -> list[Path]:  # fmt: skip
    """Build the pages of one paper alone, or all pages and the overview; returns what was written, pages first.

    results: a results folder to be read alone (default: workspace and reference, as `repro.answers.tables.loading`
    tells); out: where pages go (`reports_root()`); say: is told of each page before it is built; pdf: figures as PDF
    too; meanwhile: is called while other processes build pages. The same summaries give the same bytes; a page of which
    nothing changed stays as it is (`repro.answers.pages.built`). A page's figures and tables of an earlier build that
    no longer have results are removed.
    """
    every = [*overview.papers(), *overview.across()]
    if results == reference_root():  # which has nothing of other people's papers
        every = [name for name in every if is_ours(name)]
    if paper is not None and paper not in every:
        raise unknown("paper", paper, every)
    results, out = (Path(folder) if folder is not None else None for folder in (results, out))
    out = out or reports_root()
    names = every if paper is None else [paper]
    made = {name: before for name in names if (before := _as_it_was(name, results, out, pdf))}
    if paper is not None and not made:
        say(f"building the page of {paper} ...")
        made[paper] = page(paper, results, out, pdf)
    if paper is None:
        missing = [name for name in names if name not in made]
        with _beside(len(missing)) as begun:
            made |= _pages(missing, results, out, say, begun, pdf, meanwhile)
            made[overview.PAGE] = begun(overview.build, {name: one.said for name, one in made.items()}, out, pdf)()
    pages: list[Path] = []
    files: list[Path] = []
    for name in made:
        of_page, others = made[name].written()
        pages += of_page
        files += others
        _sweep([out / "figures" / name, out / "tables" / name], set(others))
    return [*pages, *files]


def build_overview(out: Path, results: Path | None = None) -> list[Path]:
    """The overview of the pages that are there as they would be built now; returns what was written."""
    every = (*overview.papers(), *overview.across())
    made = {name: before for name in every if (before := _as_it_was(name, results, out))}
    pages, files = overview.build({name: one.said for name, one in made.items()}, out).written()
    return [*pages, *files]


def _as_it_was(name: str, results: Path | None, out: Path, pdf: bool = False) -> Built | None:
    """A page as an earlier build made it, where nothing has changed since."""
    before = Built.before(name, out)
    return before if before.is_of(built.inputs(name, results), pdf) else None


Begun = Callable[..., Callable[[], Any]]  # begins a function's work with these arguments; returns what waits for it


@contextmanager
def _beside(count: int) -> Iterator[Begun]:
    """What works in up to `count` processes at once, one a core; here, once it is waited for, where that is one."""
    processes = min(count, len(os.sched_getaffinity(0)))
    if processes <= 1:
        yield partial
        return
    fresh = multiprocessing.get_context("forkserver")  # drawing may have threads here
    fresh.set_forkserver_preload(["__main__", *IMPORTED])
    with ProcessPoolExecutor(processes, fresh, config_folders.inherit, (config_folders.variable(),)) as pool:
        yield lambda *work: pool.submit(*work).result


def _pages(
    names: Sequence[str], results: Path | None, out: Path, say: Callable[[str], None], begun: Begun, pdf: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, Built]:  # fmt: skip
    """What `page` gives for each, in order. Somebody else's page that cannot be built costs a warning."""
    made: dict[str, Built] = {}
    if names:
        say(f"building the page{'s' if len(names) > 1 else ''} of {', '.join(names)} ...")
    of_papers = overview.papers()  # which begin last: they take about as long as one another
    work = {name: begun(page, name, results, out, pdf) for name in sorted(names, key=lambda name: name in of_papers)}
    meanwhile()
    for name in names:
        try:
            made[name] = work[name]()
        except InputError as error:
            if is_ours(name):
                raise
            warn(f"{error}; the page is left out")
    return made


def is_ours(page: str) -> bool:
    """Whether a page is of the project, and not of somebody else's folder."""
    return config_folders.report_folder(page).parent == REPORTS


@collecting.rarely()
def page(name: str, results: Path | None, out: Path, pdf: bool = False) -> Built:
    """The page of a paper, or one across papers, built under `out`; InputError for what somebody else's raises."""
    try:
        return _page(name, results, out, pdf)
    except InputError:
        raise
    except Exception as error:  # of their template, tables or functions
        if is_ours(name):
            raise
        folder = str(config_folders.report_folder(name))
        where = error_location.describe(error, lambda file: file.startswith(folder))
        raise InputError(f"the page of {name} cannot be built: {where}") from None


def _page(name: str, results: Path | None, out: Path, pdf: bool) -> Built:
    files, inputs = Files(name, out, pdf=pdf), built.inputs(name, results)
    if name in overview.papers():
        from repro.answers.pages import paper_page

        return files.built(inputs, *paper_page.build(name, results, files))
    return files.built(inputs, *not_none(config_folders.report_module(name)).build(results, files))


def _sweep(folders: list[Path], written: set[Path]) -> None:
    """Remove what an earlier build left in the folders that are only ours."""
    for folder in folders:
        for path in sorted(folder.glob("*")):
            if path.suffix in GENERATED and path not in written:
                try:
                    safe_files.remove(path)
                except OSError as error:
                    raise InputError(f"{path}: an outdated figure cannot be removed ({error.strerror})") from None
