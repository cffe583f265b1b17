"""The tool held against throughputs that others measured, and against emulated runs: rows of files, and who is right.

Without PyTorch: pages are built of these files alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Generic, TypeVar

from repro.ranking.candidates import every

TIE = 0.05  # by which one must be slower than another to count as slower


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

    @property
    def place(self) -> str:
        return self.setting

    @property
    def seconds(self) -> tuple[float, float]:
        """Of a sample: (measured, predicted)."""
        return 1 / self.measured, 1 / self.predicted


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
    def seconds(self) -> tuple[float, float]:
        """(emulated, predicted)"""
        return self.emulated_s, self.predicted_s

    @property
    def off(self) -> float:
        """Predicted over emulated."""
        return self.predicted_s / self.emulated_s


R = TypeVar("R", Compared, Emulated)


@dataclass(frozen=True)
class Contest(Generic[R]):
    """Strategies in one place. named: the one that is predicted to be the fastest; fastest: as observed."""

    rows: tuple[R, ...]
    named: R
    fastest: R

    @property
    def place(self) -> R:
        return self.rows[0]

    @property
    def right(self) -> bool:
        """Whether the named one is the fastest, or no more than TIE behind."""
        return self.named.seconds[0] <= (1 + TIE) * self.fastest.seconds[0]

    @property
    def pairs(self) -> list[bool]:
        """Of the pairs that differ by more than TIE: whether the predicted order is the observed one."""
        return [
            (a.seconds[0] < b.seconds[0]) == (a.seconds[1] < b.seconds[1])
            for a, b in combinations(self.rows, 2)
            if max(a.seconds[0], b.seconds[0]) > (1 + TIE) * min(a.seconds[0], b.seconds[0])
        ]


def contests(rows: Sequence[R], kind: str | None = None) -> list[Contest[R]]:
    """The places with two strategies or more; kind: only candidates that count there."""
    by_place: dict[Any, list[R]] = {}
    for row in rows:
        if kind is None or every()[row.candidate].counts(kind):
            by_place.setdefault(row.place, []).append(row)
    return [
        Contest(tuple(own), min(own, key=lambda row: row.seconds[1]), min(own, key=lambda row: row.seconds[0]))
        for own in by_place.values()
        if len(own) > 1
    ]
