"""Every finished run that can be shown: those of the workspace and those of the reference."""

from __future__ import annotations

from collections import defaultdict
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
from repro.records.store import run_folders
from repro.records.sweep import Sweep

if TYPE_CHECKING:
    import pandas as pd

REFERENCE, WORKSPACE = "reference", "workspace"


@dataclass(frozen=True)
class Found:
    """A run, and where it is from."""

    origin: str
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
        found = {record.name: Found(REFERENCE, record) for record in reference.read(paper)}
    for folder in run_folders(root or results_root(), paper) if root != reference_root() else ():
        if record := store.usable(folder):
            found["/".join(folder.parts[-2:])] = Found(WORKSPACE, record)
    return [found[name] for name in sorted(found)]


def sweeps(paper: str, root: Path | None = None) -> list[tuple[Found, Sweep]]:
    """The sweeps of a paper, in the order of experiments and names, each with its run as configured.

    root: as of `runs`. A sweep of the workspace takes the place of the same in the reference, if it has as many draws.
    """
    found = {}
    if root in (None, reference_root()):
        found = {each.name: (Found(REFERENCE, each.record), each) for each in reference.sweeps(paper)}
    for folder in sweep.folders(root or results_root(), paper) if root != reference_root() else ():
        own = sweep.usable(folder)
        name = "/".join(folder.parts[-2:])
        if own and own.draws and (name not in found or len(found[name][1].draws) <= len(own.draws)):
            found[name] = (Found(WORKSPACE, own.record), own)
    return [found[name] for name in sorted(found)]


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
    """What `table` says last of each run."""
    records = [each.record for each in found]
    own = _comparable(records)
    places = [(*_place(record), variants.digest(values)) for record, values in zip(records, own, strict=True)]
    changes: dict[tuple[Any, ...], dict[str, None]] = defaultdict(dict)  # older runs of a configuration do not say them
    for place, record in zip(places, records, strict=True):
        changes[place] |= dict.fromkeys(record.identity.changes)
    paths = [[*changes[place]] for place in places]

    def labels() -> list[str]:
        of = zip(records, own, paths, strict=True)
        return [identity.label(run.identity.variant, values, shown) for run, values, shown in of]

    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, (place, label) in enumerate(zip(places, labels(), strict=True)):
        alike[*place[:-1], label].append(i)
    for those in alike.values():
        apart = variants.differing([own[i] for i in those])
        for i in those:
            paths[i] = [*dict.fromkeys([*paths[i], *apart])]
    return [
        {"label": label, "configuration": place[-1], "besides": variants.digest(values, without=variants.STRATEGY)}
        | {"cores": run.hardware.cores, "free_arithmetic": getattr(run.result, "free_arithmetic", False)}
        for run, label, place, values in zip(records, labels(), places, own, strict=True)
    ]


def _comparable(records: Sequence[Record]) -> list[Values]:
    """The values of each run's identity, comparable with those of the same experiment."""
    own = [record.identity.values for record in records]
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, record in enumerate(records):
        places[record.identity.paper, record.identity.experiment].append(i)
    for those in places.values():
        for i, whole in zip(those, variants.completed([own[i] for i in those]), strict=True):
            own[i] = whole
    # what stands in a user's file is another thing after each change
    codes = [record.provenance.get("users_code") or {} for record in records]
    return [values | {f"{part}.code": of for part, of in code.items()} for values, code in zip(own, codes, strict=True)]


def _place(record: Record) -> tuple[Any, ...]:
    """Runs that are the same in this look alike in a table."""
    own = record.identity
    return own.paper, own.experiment, own.variant, own.testbed.name, record.kind, own.scale, own.breakdown
