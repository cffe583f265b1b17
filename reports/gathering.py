"""The results of a paper as its page has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from repro.reports.groups import Group
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
    """What a page shows, and which results speak to a claim."""

    found: Found
    find: Finder
