"""The non-inferiority test for accuracies, from pairs of runs that share a seed.

Each limit is one-sided 95 % (Student's t over the pairs, so both make a 90 % interval). A margin should not be finer
than the test set resolves (docs/accuracy.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev

from repro.answers.claims.verdict import NOT_REPRODUCED, OPEN, REPRODUCED

LEVEL = 0.95  # of each one-sided limit


@dataclass(frozen=True)
class Comparison:
    """Mean difference of `pairs` pairs with its two one-sided limits; a loss below the margin is no loss."""

    mean: float
    low: float
    high: float
    pairs: int
    margin: float

    @property
    def answer(self) -> str:
        """The word for "no loss": reproduced if the lower limit is above -margin; not reproduced if the upper limit is
        below 0 and the mean below -margin; else open."""
        if self.low > -self.margin:
            return REPRODUCED
        return NOT_REPRODUCED if self.high < 0 and self.mean < -self.margin else OPEN


def compare_pairs(gains: Iterable[float], margin: float) -> Comparison:
    """Compare by a difference a seed, positive where the variant is better than the baseline.

    The limits are infinite with fewer than two pairs, or a difference that is not finite.
    """
    from scipy.special import stdtrit  # importing `scipy.stats` takes half a second

    values = [float(gain) for gain in gains]
    pairs, mean = len(values), fmean(values) if values else math.nan
    if pairs < 2 or not all(map(math.isfinite, values)):
        return Comparison(mean, -math.inf, math.inf, pairs, margin)
    half = float(stdtrit(pairs - 1, LEVEL)) * (stdev(values) / math.sqrt(pairs))
    return Comparison(mean, mean - half, mean + half, pairs, margin)
