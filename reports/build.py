"""Build pages from results alone: `repro.reports.build.build()`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from repro.common.errors import InputError, unknown
from repro.common.paths import reports_root
from repro.reports.overview import ACROSS, PAPERS

GENERATED = {".png", ".pdf", ".csv", ".json", ".tex"}


def build(
    paper: str | None = None, results: Path | None = None, out: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:  # fmt: skip
    """Build the pages of one paper alone, or all pages and the overview; returns what was written, pages first.

    results: a results folder to be read alone (default: workspace and reference, as `repro.reports.loading` tells);
    out: where pages go (`reports_root()`); say: is told of each page before it is built. The same summaries give the
    same bytes. A page's figures and tables of an earlier build that no longer have results are removed.
    """
    if paper is not None and paper not in (*PAPERS, *ACROSS):
        raise unknown("paper", paper, (*PAPERS, *ACROSS))
    results, out = (Path(folder) if folder is not None else None for folder in (results, out))
    out = out or reports_root()
    pages: list[Path] = []
    files: list[Path] = []
    done: dict[str, Any] = {}
    for name, made in _pages((*PAPERS, *ACROSS) if paper is None else (paper,), results, out, say):
        of_paper, others, done[name] = made
        pages += of_paper
        files += others
        _sweep([out / "figures" / name, out / "tables" / name], set(others))
    if paper is None:
        from repro.reports import overview

        pages += overview.build(done, out)
    return [*pages, *files]


def _pages(
    names: Sequence[str], results: Path | None, out: Path, say: Callable[[str], None]
) -> Iterator[tuple[str, Any]]:
    """What `page` gives for each, in order; several at once in processes of their own, one a core."""
    cores = len(os.sched_getaffinity(0))
    if len(names) == 1 or cores == 1:
        for name in names:
            say(f"building the page of {name} ...")
            yield name, page(name, results, out)
        return
    say(f"building the pages of {', '.join(names)} ...")
    fresh = multiprocessing.get_context("forkserver")  # drawing may have threads here
    with ProcessPoolExecutor(min(cores, len(names)), mp_context=fresh) as pool:
        yield from zip(names, pool.map(page, names, [results] * len(names), [out] * len(names)))


def page(name: str, results: Path | None, out: Path) -> tuple[list[Path], list[Path], Any]:
    """(pages, other files, what the overview says) of a paper, or of a page across papers."""
    if name in PAPERS:
        from repro.reports import paper_page

        return paper_page.build(name, results, out)
    return import_module(f"repro.reports.{name}").build(results, out)


def _sweep(folders: list[Path], written: set[Path]) -> None:
    """Remove what an earlier build left in the folders that are only ours."""
    for folder in folders:
        for path in sorted(folder.glob("*")):
            if path.suffix in GENERATED and path not in written:
                try:
                    path.unlink()
                except OSError as error:
                    raise InputError(f"{path}: an outdated figure cannot be removed ({error.strerror})") from None
