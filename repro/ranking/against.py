"""The tool held against throughputs that others measured, and against emulated runs: rows of files, and who is right.

Without PyTorch: pages are built of these files alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from repro.ranking.candidates import ANY, every

TIE = 0.05  # of the best observed one: naming either is right


@dataclass(frozen=True)
class Compared:
    """A measured throughput beside the predicted one and its interval, samples/s; candidate: what stands for it."""

    setting: str
    source: str
    model: str
    workers: int
    gbit: float
    system: str
    candidate: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


@dataclass(frozen=True)
class Judged:
    """A setting with several strategies: the one that the tool puts first, and whether it was the best measured."""

    named: Compared
    best: Compared
    right: bool


def judge(rows: Sequence[Compared]) -> Judged | None:
    """Of the rows of one setting; None where there is nothing to choose from."""
    if len(rows) < 2:
        return None
    named = max(rows, key=lambda row: row.predicted)
    best = max(rows, key=lambda row: row.measured)
    return Judged(named, best, named.measured >= (1 - TIE) * best.measured)


def error(rows: Sequence[Compared]) -> float:
    """The median of |predicted / measured - 1|."""
    return statistics.median(abs(row.ratio - 1) for row in rows)


@dataclass(frozen=True)
class Emulated:
    """An emulated run beside its form: seconds of an iteration. ratio: as in the map; late: share of its computation by
    which one random worker is late."""

    paper: str
    experiment: str
    testbed: str
    model: str
    workers: int
    gbit: float
    ratio: float
    late: float
    candidate: str
    emulated_s: float
    predicted_s: float

    @property
    def place(self) -> tuple[Any, ...]:
        """What the strategies of a comparison have alike."""
        return self.paper, self.experiment, self.testbed, self.model, self.workers, self.gbit, self.ratio, self.late

    @property
    def off(self) -> float:
        """Predicted over emulated."""
        return self.predicted_s / self.emulated_s


@dataclass(frozen=True)
class Contest:
    """Strategies that were emulated in one place. place: a row of it; right: the forms' first is the fastest emulated,
    or no more than TIE behind; pairs, right_pairs: of two strategies that differ by more than that."""

    place: Emulated
    rows: tuple[Emulated, ...]
    fastest: Emulated
    named: Emulated
    right: bool
    pairs: int
    right_pairs: int


def contests(rows: Sequence[Emulated], kind: str = ANY) -> list[Contest]:
    """The places with two strategies of a kind or more."""
    by_place: dict[tuple[Any, ...], list[Emulated]] = {}
    for row in rows:
        if every()[row.candidate].counts(kind):
            by_place.setdefault(row.place, []).append(row)
    found = []
    for own in by_place.values():
        if len(own) < 2:
            continue
        fastest, named = (min(own, key=lambda row: getattr(row, of)) for of in ("emulated_s", "predicted_s"))
        apart = [
            (a, b)
            for a, b in combinations(own, 2)
            if max(a.emulated_s, b.emulated_s) > (1 + TIE) * min(a.emulated_s, b.emulated_s)
        ]
        right = sum((a.emulated_s < b.emulated_s) == (a.predicted_s < b.predicted_s) for a, b in apart)
        alike = named.emulated_s <= (1 + TIE) * fastest.emulated_s
        found.append(Contest(own[0], tuple(own), fastest, named, alike, len(apart), right))
    return found
