"""How far closed forms are from their simulations, and which are good enough to rank by.

Fixed before the first run: a form is good enough if it is within WITHIN of its simulation in SHARE of CASES settings.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CASES, WITHIN, SHARE = 200, 0.05, 0.95


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
        return self.within >= SHARE
