"""Every finished run that can be shown: those of the workspace and those of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.core.errors import unknown
from repro.core.paths import reference_root, results_root
from repro.records import identity, reference, store, sweep, tidy, variants
from repro.records.flat import flat
from repro.records.identity import Values
from repro.records.record import Record
from repro.records.store import run_dir, run_folders
from repro.records.sweep import Sweep

if TYPE_CHECKING:
    import pandas as pd

REFERENCE, WORKSPACE = "reference", "workspace"


@dataclass(frozen=True)
class Found:
    """A run, where it is from, and the file that holds it."""

    origin: str
    path: Path
    record: Record

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The record as one mapping (`repro.records.flat`)."""
        return flat(self.record)


def papers(paper: str | None = None) -> list[str]:
    """Papers with finished runs, or the one that is named; InputError where it has none."""
    known = sorted({*reference.papers(), *(folder.parts[-3] for folder in run_folders(results_root()))})
    if paper is None:
        return known
    if paper not in known:
        raise unknown("paper with results", paper, known)
    return [paper]


def runs(paper: str, root: Path | None = None) -> list[Found]:
    """The finished runs of a paper, in the order of experiments and names.

    root: a results folder, or the reference, to be read alone; None: the workspace and the reference. A run of the
    workspace takes the place of the same run (variant, testbed, seed and key) in the reference. A run of the workspace
    whose record cannot be read is left out, with a warning.
    """
    found = {}
    if root in (None, reference_root()):
        tables = reference_root() / paper / "runs.parquet"
        found = {record.name: Found(REFERENCE, tables, record) for record in reference.read(paper)}
    for folder in run_folders(root or results_root(), paper) if root != reference_root() else ():
        if record := store.usable(folder):
            found["/".join(folder.parts[-2:])] = Found(WORKSPACE, folder / "summary.json", record)
    return [found[name] for name in sorted(found)]


def sweeps(paper: str, root: Path | None = None) -> list[tuple[Found, Sweep]]:
    """The sweeps of a paper, in the order of experiments and names, each with its run as configured.

    root: as of `runs`. A sweep of the workspace takes the place of the same in the reference, if it has as many draws.
    """
    found = {}
    if root in (None, reference_root()):
        tables = reference_root() / paper / "sweeps.parquet"
        found = {each.name: (Found(REFERENCE, tables, each.record), each) for each in reference.sweeps(paper)}
    for folder in sweep.folders(root or results_root(), paper) if root != reference_root() else ():
        own = sweep.usable(folder)
        name = "/".join(folder.parts[-2:])
        if own and own.draws and (name not in found or len(found[name][1].draws) <= len(own.draws)):
            found[name] = (Found(WORKSPACE, folder / sweep.FILE, own.record), own)
    return [found[name] for name in sorted(found)]


def of_workspace(record: Record) -> Found:
    """A run of this workspace by its record."""
    folder = run_dir(record.identity.paper, record.identity.experiment, record.run)
    return Found(WORKSPACE, folder / "summary.json", record)


def values(found: Sequence[Found]) -> list[Values]:
    """The values of each run's identity, comparable with those of the same experiment."""
    own = [each.record.identity.values for each in found]
    places: dict[tuple[str, str], list[int]] = {}
    for i, each in enumerate(found):
        places.setdefault((each.record.identity.paper, each.record.identity.experiment), []).append(i)
    for those in places.values():
        for i, whole in zip(those, variants.completed([own[i] for i in those]), strict=True):
            own[i] = whole
    return own


def table(which: str, found: Sequence[Found]) -> pd.DataFrame:
    """One of the tables of these runs (`repro.records.tidy`); each row says first where it is from, and whose.

    Of `runs` each row says last how many cores its hardware has (`cores`), whether its strategy compresses in no time
    (`free_arithmetic`), with `label` where it is not as its
    experiment has it, or what tells it from others that would have the same label, and which configuration it has:
    `configuration`, a digest, and `besides`, the same of all but its strategy and what that may need
    (`variants.STRATEGY`).
    """
    rows = [
        [{"origin": each.origin, "paper": each.record.identity.paper} | row for row in tidy.rows(which, each.summary)]
        for each in found
    ]
    if which == "runs":
        for of_run, more in zip(rows, _identified(found), strict=True):
            of_run[0] |= more
    return tidy.frame([row for of_run in rows for row in of_run])


def _identified(found: Sequence[Found]) -> list[dict[str, Any]]:
    own = values(found)
    digests = [variants.digest(each) for each in own]
    places = [_place(each.record) for each in found]
    changes: dict[tuple[Any, ...], dict[str, None]] = {}  # by configuration, for older runs of it do not say them
    for run, place, digest in zip(found, places, digests, strict=True):
        changes.setdefault((*place, digest), {}).update(dict.fromkeys(run.record.identity.changes))
    paths = [[*changes[*place, digest]] for place, digest in zip(places, digests, strict=True)]
    names = [run.record.identity.variant for run in found]
    alike: dict[tuple[Any, ...], list[int]] = {}
    for i, (place, name) in enumerate(zip(places, names, strict=True)):
        alike.setdefault((*place, identity.label(name, own[i], paths[i])), []).append(i)
    for those in alike.values():
        apart = variants.differing([own[i] for i in those])
        for i in those:
            paths[i] = [*dict.fromkeys([*paths[i], *apart])]
    made = []
    for i, run in enumerate(found):
        besides = variants.digest(own[i], without=variants.STRATEGY)
        cores = run.record.hardware.cores
        label = identity.label(names[i], own[i], paths[i])
        free = run.summary.get("free_arithmetic") is True
        known = {"cores": cores, "free_arithmetic": free}
        made.append({"label": label, "configuration": digests[i], "besides": besides} | known)
    return made


def _place(record: Record) -> tuple[Any, ...]:
    """Runs that are the same in this look alike in a table."""
    own = record.identity
    return own.paper, own.experiment, own.variant, own.testbed.name, record.kind, own.scale, own.breakdown
