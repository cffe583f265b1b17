"""How far closed forms are from their simulations, and which are good enough to rank by.

Fixed before the first run: a form is good enough if it is within WITHIN of its simulation in SHARE of CASES settings.
Changed once, when all settings of six strategies and eight of the others had been simulated, because those of sharded
servers take hours: a check also ends where a binomial says with CONFIDENCE that SHARE of all settings are within
WITHIN, which is after 59 settings if none is off, and after 93 if one is.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from repro.answers.ranking.written import read_written

CASES, WITHIN, SHARE, CONFIDENCE = 200, 0.05, 0.95, 0.95


@dataclass(frozen=True)
class Checked:
    """A closed form beside its simulation, seconds of a step, in a random setting."""

    candidate: str
    case: int
    workers: int
    form_s: float
    simulated_s: float

    @property
    def off(self) -> float:
        """The form over the simulation, less 1."""
        return self.form_s / self.simulated_s - 1


def is_sure(cases: int, off: int) -> bool:
    """Whether so few of so many settings would be off in 1 - CONFIDENCE of all checks if SHARE were within WITHIN."""
    return sum(math.comb(cases, k) * (1 - SHARE) ** k * SHARE ** (cases - k) for k in range(off + 1)) <= 1 - CONFIDENCE


def is_decided(rows: Sequence[Checked]) -> bool:
    """Whether the settings so far say if a form is good enough."""
    off = sum(abs(row.off) > WITHIN for row in rows)
    return off > (1 - SHARE) * CASES or is_sure(len(rows), off)


@dataclass(frozen=True)
class FormError:
    """within: the share of the cases that are. usual: |off| of SHARE of them at most. median, ends: of off."""

    cases: int
    within: float
    usual: float
    median: float
    ends: tuple[float, float]

    @classmethod
    def of(cls, rows: Sequence[Checked]) -> FormError:
        off = [row.off for row in rows]
        away = np.abs(off)
        usual = float(np.quantile(away, SHARE))
        return cls(len(rows), float(np.mean(away <= WITHIN)), usual, statistics.median(off), (min(off), max(off)))

    @property
    def good(self) -> bool:
        off = round((1 - self.within) * self.cases)
        return self.within >= SHARE and (self.cases >= CASES or is_sure(self.cases, off))

    def __str__(self) -> str:
        few = ", too few to rank by" if self.within >= SHARE and not self.good else ""
        return (
            f"its form is within {WITHIN:.0%} of its simulation in {self.within:.0%} of {self.cases} random settings "
            f"({self.ends[0]:+.0%} to {self.ends[1]:+.0%}){few}"
        )


@cache
def committed_errors() -> Mapping[str, FormError]:
    """Candidate -> the error of its form, by the table that `repro map --check-forms` wrote."""
    by_name: dict[str, list[Checked]] = {}
    for row in read_written(Checked, "forms"):
        by_name.setdefault(row.candidate, []).append(row)
    return {name: FormError.of(rows) for name, rows in by_name.items()}
