"""The results of a paper as its page has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from repro.experiment.inputs import FACTOR
from repro.reports import loading
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

AnyGroup = Group | ProbeGroup
Finder = Callable[[str, str], AnyGroup | None]  # (experiment, kind) -> the results that speak to a claim


class Found(Protocol):
    """The results of a page: (experiment, kind) -> group, every group in a figure or table, all other groups."""

    @property
    def shown(self) -> Mapping[tuple[str, str], AnyGroup]: ...

    @property
    def used(self) -> Sequence[AnyGroup]: ...

    @property
    def others(self) -> Sequence[AnyGroup]: ...


class Gathered(NamedTuple):
    """What a page shows, which results speak to a claim, and the runs at the ends of assumed inputs, by end."""

    found: Found
    find: Finder
    ends: Mapping[str, Sequence[Summary]]


class Read(NamedTuple):
    """The finished runs of a paper: those that trained, at the ends of assumed inputs apart, and those of probes."""

    trained: list[Summary]
    probed: list[Summary]
    ends: Mapping[str, Sequence[Summary]]


def read(paper: str, results: Path | None) -> Read:
    """The results of a paper, read once; InputError for a summary that pages cannot read."""
    trained: list[Summary] = []
    probed: list[Summary] = []
    ends: dict[str, list[Summary]] = {}
    for run in loading.read(paper, results):
        if not loading.trains(run):
            probed.append(run)
        elif end := str((run.get("factors") or {}).get(FACTOR, "")):
            ends.setdefault(end, []).append(run)
        else:
            trained.append(run)
    return Read(trained, probed, ends)
