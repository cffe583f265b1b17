"""All finished runs: those of the workspace and those of the reference."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path

from repro.core.errors import InputError, unknown_name
from repro.core.paths import reference_root, results_root
from repro.records import reference, store, sweep, variants
from repro.records.record import Found
from repro.records.store import run_folders
from repro.records.sweep import Sweep
from repro.records.variants import REFERENCE, WORKSPACE


def workspace_root() -> Path:
    """The folder of the user's results, which need not exist; InputError for one that is no folder or is unreadable."""
    root = results_root()
    if root.exists() and not root.is_dir():
        raise InputError(f"results folder {root}: must be a folder; set REPRO_RESULTS to another")
    if root.exists() and not os.access(root, os.R_OK | os.X_OK):
        raise InputError(f"results folder {root}: {os.strerror(errno.EACCES)}; set REPRO_RESULTS to another")
    return root


def papers(paper: str | None = None) -> list[str]:
    """The papers with finished runs or draws, or the named one; InputError if that has no unfinished runs either."""
    folders = (*run_folders(workspace_root()), *sweep.folders(workspace_root()))
    known = sorted({*reference.papers(), *(folder.parts[-3] for folder in folders)})
    if paper is None:
        return known
    from repro.records.kept import unfinished_runs  # no page needs it

    if paper not in known and not unfinished_runs(paper):
        raise unknown_name("paper with results", paper, known)
    return [paper]


def runs(paper: str, root: Path | None = None, experiments: Collection[str] | None = None) -> list[Found]:
    """The finished runs of a paper, or of some of its experiments, which takes less time; sorted by experiment and
    name.

    root: a results folder, or the reference, to be read alone; None: the workspace and the reference. Of copies, which
    have the same name (variant, testbed, seed and key), the newest counts. Unreadable records of the workspace are left
    out, with a warning.
    """
    committed = reference.read(paper, None, experiments) if root in (None, reference_root()) else []
    folders = run_folders(root or workspace_root(), paper) if root != reference_root() else []
    folders = [folder for folder in folders if experiments is None or folder.parent.name in experiments]
    finished = [Found(REFERENCE, record) for record in committed]
    finished += [Found(WORKSPACE, record) for folder in folders if (record := store.usable_record(folder))]
    return sorted(variants.newest(finished, _name), key=_name)


def sweeps(paper: str, root: Path | None = None) -> list[tuple[Found, Sweep]]:
    """The sweeps of a paper, each with its configured run; the newest come last.

    root: as for `runs`. Of copies the one with most draws counts, of equal ones that of the workspace. Of several of
    one place the newest counts, since older code or inputs may have left others; but one of the workspace with fewer
    draws than the published one, as while it is drawn, does not: publishing leaves it out too.
    """
    committed = reference.sweeps(paper) if root in (None, reference_root()) else []
    folders = sweep.folders(root or workspace_root(), paper) if root != reference_root() else ()
    drawn = [(Found(REFERENCE, each.record), each) for each in committed]
    drawn += [(Found(WORKSPACE, each.record), each) for folder in folders if (each := sweep.usable_sweep(folder))]
    longest: dict[str, tuple[Found, Sweep]] = {}
    for run, each in drawn:
        if each.draws and (_name(run) not in longest or len(longest[_name(run)][1].draws) <= len(each.draws)):
            longest[_name(run)] = run, each
    published = {variants.place(run): (run, each) for run, each in longest.values() if run.origin == REFERENCE}
    chosen = []
    for run in variants.newest((run for run, _ in longest.values()), variants.place):
        newest = longest[_name(run)]
        both = newest, published.get(variants.place(run), newest)
        chosen.append(max(both, key=lambda drawn: len(drawn[1].draws)))  # of equal ones the newest
    return chosen


def _name(run: Found) -> str:
    return run.record.name
