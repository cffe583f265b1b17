"""How far predictions of published step times were off: the errors that a new prediction gets, and a user's own run.

An error is the logarithm of measured over predicted seconds. It has two parts: its source's median, which all
strategies of a draw share (one framework, one cluster), and how far a row is from that median, drawn for each strategy.
All sources have the same weight. A step gets the errors of steps with as much communication as it has, since little of
it hides little of what frameworks add. The closed form itself counts as a source without an error: nothing is added.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from repro.answers.ranking.against import PUBLISHED, Compared
from repro.answers.ranking.candidates import LIGHT, OFTEN, PAYS
from repro.answers.ranking.written import read_written
from repro.core import user_files
from repro.experiment import inputs

if TYPE_CHECKING:
    from repro.algorithms.timing.step import Step  # imports PyTorch, which pages do without

FRAMEWORK = "framework"  # the name of the input
PAIRS = 1024  # drawn to compare rows of one source


@dataclass(frozen=True)
class Errors:
    """between: medians of sources, and 0. within: (distance from its source's median, weight) of rows, by distance."""

    between: tuple[float, ...]
    within: tuple[tuple[float, float], ...]
    rows: int

    @classmethod
    def of(cls, rows: Collection[Compared]) -> Errors:
        by_source: dict[str, list[float]] = {}
        for row in rows:
            by_source.setdefault(row.source, []).append(row.error)
        medians = {source: statistics.median(errors) for source, errors in by_source.items()}
        within = sorted(
            (error - medians[source], 1 / len(errors))
            for source, errors in by_source.items()
            for error in errors
            if len(errors) > 1
        )
        return cls((0.0, *medians.values()), tuple(within), len(rows))

    def shared(self, quantiles: np.ndarray) -> np.ndarray:
        """A source's median, at quantiles."""
        return np.quantile(self.between, quantiles, method="weibull")

    def own(self, quantiles: np.ndarray) -> np.ndarray:
        """A row's distance from its source's median, at quantiles."""
        if not self.within:
            return np.zeros_like(quantiles)
        distances, weights = zip(*self.within)
        ends = np.cumsum(weights)
        return np.interp(quantiles * ends[-1], ends - np.array(weights) / 2, distances)

    @property
    def middle(self) -> float:
        """The median of the sources' medians."""
        return float(self.shared(np.array(0.5)))


@dataclass(frozen=True)
class Calibration:
    """The rows whose errors a prediction gets."""

    rows: Sequence[Compared]

    def errors_of(self, step: Step) -> Errors:
        """Those of steps with as much communication; none of a step without: its computation was measured."""
        return self._errors_of(step.load < LIGHT) if step.load else _errors(())

    def _errors_of(self, light: bool) -> Errors:
        return _errors(tuple(row for row in self.rows if (row.load < LIGHT) == light))

    def drawn(self, points: Mapping[str, Step], draws: int, shared: bool = True) -> dict[str, np.ndarray]:
        """Candidate -> its error in each draw; shared: with its source's part."""
        quantiles = inputs.draw_quantiles(FRAMEWORK, draws)
        errors = {}
        for name, step in points.items():
            of, random = self.errors_of(step), Random(name)
            errors[name] = of.own(np.array([random.random() for _ in range(draws)]))
            if shared:
                errors[name] += of.shared(quantiles)
        return errors

    @cached_property
    def lead(self) -> float:
        """A strategy's seconds over another's closed form from which on the other pays in OFTEN of the draws, as far as
        rows of one source differ."""
        own, random = _errors(tuple(self.rows)), Random(FRAMEWORK)
        one, other = own.own(np.array([[random.random(), random.random()] for _ in range(PAIRS)])).T
        return float((1 + PAYS) * np.exp(np.quantile(one - other, OFTEN)))

    def __str__(self) -> str:
        light, heavy = (math.expm1(self._errors_of(little).middle) for little in (True, False))
        return (
            f"{len(self.rows)} published step times of {len({row.source for row in self.rows})} sources, which in the "
            f"median are {light:.0%} longer where communication is below {LIGHT:.0%} of the computation and "
            f"{heavy:.0%} elsewhere: what is added"
        )


@cache
def _errors(rows: tuple[Compared, ...]) -> Errors:
    return Errors.of(rows)


@cache
def kept_out() -> frozenset[str]:
    """The sources that stay out of every fit."""
    return frozenset(user_files.read_yaml(PUBLISHED)["kept_out"])


def fit_calibration(rows: Sequence[Compared], without: str = "") -> Calibration:
    """From published rows of other sources than `without` that are not kept out."""
    return Calibration([row for row in rows if row.source not in kept_out() | {without}])


@cache
def committed_calibration() -> Calibration:
    """From the table that `repro map` wrote."""
    return fit_calibration(read_written(Compared, "published"))
