"""All finished runs: those of the workspace and those of the reference."""

from __future__ import annotations

from pathlib import Path

from repro.core.errors import unknown_name
from repro.core.paths import reference_root, results_root
from repro.records import kept, reference, store, sweep, unfinished, variants
from repro.records.record import Found as Found
from repro.records.store import run_folders
from repro.records.sweep import Sweep
from repro.records.unfinished import Unfinished
from repro.records.variants import KEPT, REFERENCE, WORKSPACE


def papers(paper: str | None = None) -> list[str]:
    """The papers with finished runs, or the named one; InputError if that has neither finished nor unfinished runs."""
    known = sorted({*reference.papers(), *(folder.parts[-3] for folder in run_folders(results_root()))})
    if paper is None:
        return known
    if paper not in known and not unfinished_runs(paper):
        raise unknown_name("paper with results", paper, known)
    return [paper]


def unfinished_runs(paper: str | None = None) -> list[tuple[str, Unfinished]]:
    """The unfinished runs of a paper, or of all, each with its origin: WORKSPACE, or KEPT in `results/unfinished`."""
    began = run_folders(results_root(), paper or "*", having=[unfinished.FILE])
    own = [(WORKSPACE, run) for folder in began if (run := unfinished.read(folder))]
    return own + [(KEPT, run) for run in kept.runs(paper or "*")]


def runs(paper: str, root: Path | None = None) -> list[Found]:
    """The finished runs of a paper, sorted by experiment and name.

    root: a results folder, or the reference, to be read alone; None: the workspace and the reference. A run of the
    workspace replaces the same run (variant, testbed, seed and key) of the reference. Unreadable records of the
    workspace are left out, with a warning.
    """
    by_name = {}
    if root in (None, reference_root()):
        by_name = {record.name: Found(REFERENCE, record) for record in reference.read(paper)}
    for folder in run_folders(root or results_root(), paper) if root != reference_root() else ():
        if record := store.usable(folder):
            by_name["/".join(folder.parts[-2:])] = Found(WORKSPACE, record)
    return [by_name[name] for name in sorted(by_name)]


def sweeps(paper: str, root: Path | None = None) -> list[tuple[Found, Sweep]]:
    """The sweeps of a paper, each with its configured run; the newest come last.

    root: as for `runs`. A sweep of the workspace replaces that of the reference, if it has at least as many draws. Of
    several of one place the newest counts: older code or inputs may have left others.
    """
    by_name = {}
    if root in (None, reference_root()):
        by_name = {each.name: (Found(REFERENCE, each.record), each) for each in reference.sweeps(paper)}
    for folder in sweep.folders(root or results_root(), paper) if root != reference_root() else ():
        drawn = sweep.usable(folder)
        name = "/".join(folder.parts[-2:])
        if drawn and drawn.draws and (name not in by_name or len(by_name[name][1].draws) <= len(drawn.draws)):
            by_name[name] = (Found(WORKSPACE, drawn.record), drawn)
    counted = variants.newest((found for found, _ in by_name.values()), variants.place)
    return [by_name[found.record.name] for found in counted]
