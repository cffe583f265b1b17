"""Predictions beside measurements (published throughputs, emulated runs): rows of CSV files, and which are right.

It does not import PyTorch: pages are built from these files alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Generic, TypeVar

from repro.answers.ranking.candidates import read_candidates

PUBLISHED = Path(__file__).parent / "published.yaml"  # published throughputs with their settings and sources
TIE = 0.05  # a strategy within this share of another is not slower


@dataclass(frozen=True)
class Compared:
    """A measured throughput beside predicted ones, samples/s; candidate: the one that predicts.

    load: the form's communication over its computation. form: by the closed form alone. predicted, low, high: with
    errors of other sources, and its interval. own_run, own_low, own_high: the same with another run of its setting
    given. formula: by hand. servers: where they are, as of a candidate.
    """

    setting: str
    source: str
    model: str
    workers: int
    gbit: float
    system: str
    candidate: str
    measured: float
    load: float
    form: float
    formula: float
    predicted: float
    low: float
    high: float
    own_run: float | None = None
    own_low: float | None = None
    own_high: float | None = None
    servers: str = "machines"

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured

    @property
    def error(self) -> float:
        """The logarithm of measured over the closed form's seconds."""
        return math.log(self.form / self.measured)

    @property
    def place(self) -> str:
        return self.setting

    @property
    def seconds(self) -> tuple[float, float]:
        """(measured, predicted), a sample."""
        return 1 / self.measured, 1 / self.predicted

    def by(self, column: str) -> Compared:
        """The row with another column as its prediction."""
        ends = {"own_run": (self.own_low, self.own_high)}.get(column, (self.low, self.high))
        value = getattr(self, column)
        return replace(self, predicted=value, low=ends[0] or value, high=ends[1] or value)


def median_error(rows: Sequence[Compared]) -> float:
    """The median of |predicted / measured - 1|."""
    return statistics.median(abs(row.ratio - 1) for row in rows)


@dataclass(frozen=True)
class Intervals:
    """How good the 90 % intervals of rows are; published.yaml explains the terms."""

    inside: int
    rows: int
    score: float
    width: float

    @classmethod
    def of(cls, rows: Sequence[Compared]) -> Intervals:
        widths = [row.high / row.low for row in rows]
        outside = [math.log(max(row.low / row.measured, row.measured / row.high, 1.0)) for row in rows]
        score = statistics.fmean(math.log(width) + 20 * away for width, away in zip(widths, outside))
        return cls(sum(not away for away in outside), len(rows), score, statistics.median(widths))

    @property
    def coverage(self) -> float:
        return self.inside / self.rows


@dataclass(frozen=True)
class Emulated:
    """An emulated run beside its closed form, seconds an iteration.

    variant: the run's label. setting: a digest of the configured testbed, model, minibatch and imbalance. ratio:
    computation to communication, as in the map. late: delay of one random worker, a share of its computation.
    """

    paper: str
    experiment: str
    variant: str
    setting: str
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
        """Strategies with the same place are compared."""
        return self.paper, self.experiment, self.setting

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
    """Strategies in one place. named: the fastest as predicted; fastest: the fastest as observed."""

    rows: tuple[R, ...]
    named: R
    fastest: R

    @property
    def place(self) -> R:
        return self.rows[0]

    @property
    def right(self) -> bool:
        """Whether the named strategy is the fastest, or at most TIE slower."""
        return self.is_best(self.named)

    def is_best(self, row: R) -> bool:
        """Whether a strategy was observed to be the fastest, or at most TIE slower."""
        return row.seconds[0] <= (1 + TIE) * self.fastest.seconds[0]

    @property
    def pairs(self) -> list[bool]:
        """For each pair that differs by more than TIE: whether its order is predicted right."""
        return [
            (a.seconds[0] < b.seconds[0]) == (a.seconds[1] < b.seconds[1])
            for a, b in combinations(self.rows, 2)
            if max(a.seconds[0], b.seconds[0]) > (1 + TIE) * min(a.seconds[0], b.seconds[0])
        ]


def find_contests(rows: Sequence[R], kind: str | None = None) -> list[Contest[R]]:
    """The places with two strategies or more; kind: only candidates of this comparison (`Candidate.counts`)."""
    by_place: dict[Any, list[R]] = {}
    for row in rows:
        if kind is None or read_candidates()[row.candidate].counts(kind):
            by_place.setdefault(row.place, []).append(row)
    return [
        Contest(
            tuple(compared),
            min(compared, key=lambda row: row.seconds[1]),
            min(compared, key=lambda row: row.seconds[0]),
        )
        for compared in by_place.values()
        if len(compared) > 1
    ]
