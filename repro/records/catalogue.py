"""All finished runs: those of the workspace and those of the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.core.errors import unknown
from repro.core.paths import reference_root, results_root
from repro.records import identity, kept, reference, store, sweep, tidy, unfinished, variants
from repro.records.flat import flat
from repro.records.identity import Values
from repro.records.record import Record
from repro.records.store import run_folders
from repro.records.sweep import Sweep
from repro.records.unfinished import Unfinished

if TYPE_CHECKING:
    import pandas as pd

REFERENCE, WORKSPACE, KEPT = "reference", "workspace", "kept"


@dataclass(frozen=True)
class Found:
    """A run, and its origin: REFERENCE or WORKSPACE."""

    origin: str
    record: Record

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The record as one mapping (`repro.records.flat`)."""
        return flat(self.record)


def papers(paper: str | None = None) -> list[str]:
    """The papers with finished runs, or the named one; InputError if that has neither finished nor unfinished runs."""
    known = sorted({*reference.papers(), *(folder.parts[-3] for folder in run_folders(results_root()))})
    if paper is None:
        return known
    if paper not in known and not unfinished_runs(paper):
        raise unknown("paper with results", paper, known)
    return [paper]


def unfinished_runs(paper: str | None = None) -> list[tuple[str, Unfinished]]:
    """The unfinished runs of a paper, or of all, each with its origin: WORKSPACE, or KEPT in `results/unfinished`."""
    began = run_folders(results_root(), paper or "*", having=[unfinished.FILE])
    own = [(WORKSPACE, run) for folder in began if (run := unfinished.read(folder))]
    return own + [(KEPT, run) for run in kept.runs(paper or "*")]


def unfinished_table(runs: Sequence[tuple[str, Unfinished]]) -> pd.DataFrame:
    """A row for each unfinished run. so_far: the metric at the last evaluation; no table of results has these runs."""
    return tidy.frame([{"origin": origin, "paper": run.identity.paper} | unfinished.row(run) for origin, run in runs])


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
    """The sweeps of a paper, each with its configured run, sorted by experiment and name.

    root: as for `runs`. A sweep of the workspace replaces that of the reference, if it has at least as many draws.
    """
    by_name = {}
    if root in (None, reference_root()):
        by_name = {each.name: (Found(REFERENCE, each.record), each) for each in reference.sweeps(paper)}
    for folder in sweep.folders(root or results_root(), paper) if root != reference_root() else ():
        own = sweep.usable(folder)
        name = "/".join(folder.parts[-2:])
        if own and own.draws and (name not in by_name or len(by_name[name][1].draws) <= len(own.draws)):
            by_name[name] = (Found(WORKSPACE, own.record), own)
    return [by_name[name] for name in sorted(by_name)]


def table(which: str, found: Sequence[Found]) -> pd.DataFrame:
    """One of the tables of `repro.records.tidy` for these runs; the first columns are `origin` and `paper`.

    The last columns of `runs` are `label` (the variant, and the values that distinguish the run from its experiment's
    own, or from other runs with the same label), `configuration` (a digest), `besides` (a digest without the strategy
    and what that may require, `variants.STRATEGY`), `cores` (of the hardware) and `free_arithmetic` (whether the
    strategy's compression is modelled to take no time).
    """
    rows = [
        [{"origin": each.origin, "paper": each.record.identity.paper} | row for row in tidy.rows(which, each.summary)]
        for each in found
    ]
    if which == "runs":
        for of_run, more in zip(rows, _last_columns([each.record for each in found]), strict=True):
            of_run[0] |= more
    return tidy.frame([row for of_run in rows for row in of_run])


def _last_columns(records: Sequence[Record]) -> list[dict[str, Any]]:
    own = _comparable(records)
    groups = [_looks(record) for record in records]
    digests = [variants.digest(values) for values in own]
    # older runs of a configuration do not record its changes, so they are taken from all of its runs
    changes: dict[tuple[Any, ...], dict[str, None]] = defaultdict(dict)
    for group, digest, record in zip(groups, digests, records, strict=True):
        changes[group, digest] |= dict.fromkeys(record.identity.changes)
    paths = [[*changes[key]] for key in zip(groups, digests, strict=True)]

    def labels() -> list[str]:
        runs = zip(records, own, paths, strict=True)
        return [identity.label(record.identity.variant, values, shown) for record, values, shown in runs]

    for alike in _grouped(zip(groups, labels(), strict=True)):
        differing = variants.differing([own[i] for i in alike])
        for i in alike:
            paths[i] = [*dict.fromkeys([*paths[i], *differing])]
    return [
        {"label": label, "configuration": digest, "besides": variants.digest(values, without=variants.STRATEGY)}
        | {"cores": record.hardware.cores, "free_arithmetic": getattr(record.result, "free_arithmetic", False)}
        for record, label, digest, values in zip(records, labels(), digests, own, strict=True)
    ]


def _comparable(records: Sequence[Record]) -> list[Values]:
    """The values of each run's identity, completed to be comparable within its experiment."""
    own = [record.identity.values for record in records]
    for experiment in _grouped((record.identity.paper, record.identity.experiment) for record in records):
        for i, values in zip(experiment, variants.completed([own[i] for i in experiment]), strict=True):
            own[i] = values
    # a user's file is a different plugin after each change
    codes = [record.provenance.get("users_code") or {} for record in records]
    return [
        values | {f"{part}.code": digest for part, digest in code.items()}
        for values, code in zip(own, codes, strict=True)
    ]


def _grouped(keys: Iterable[Hashable]) -> Iterable[list[int]]:
    """The indices with equal keys, in order."""
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return groups.values()


def _looks(record: Record) -> tuple[Any, ...]:
    """Runs with equal values here look alike in a table, except for their labels."""
    own = record.identity
    return own.paper, own.experiment, own.variant, own.testbed.name, record.kind, own.scale, own.breakdown
