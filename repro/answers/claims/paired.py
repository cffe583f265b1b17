"""Whether a variant loses accuracy against a baseline: non-inferiority from pairs of runs that share a seed.

The limits are one-sided 95 % each (Student's t over the pairs, so a 90 % interval). A margin should not be finer than
the test set resolves (docs/accuracy.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev

NO_LOSS, LOSS, OPEN = "no loss", "loss", "open"
LEVEL = 0.95  # of each one-sided limit


@dataclass(frozen=True)
class Comparison:
    """Mean difference of `pairs` pairs with its two one-sided limits; less than the margin is no loss."""

    mean: float
    low: float
    high: float
    pairs: int
    margin: float

    @property
    def answer(self) -> str:
        """`no loss`: the lower limit is above minus the margin. `loss`: the upper limit is below zero and the mean is
        beyond the margin. Else `open`."""
        if self.low > -self.margin:
            return NO_LOSS
        return LOSS if self.high < 0 and self.mean < -self.margin else OPEN


def compare(gains: Iterable[float], margin: float) -> Comparison:
    """The comparison of a difference a seed, positive where ours is better. With fewer than two pairs, or one that is
    not finite, nothing bounds the difference: its limits are infinite."""
    from scipy.special import stdtrit  # the same of `scipy.stats` takes half a second to import

    values = [float(gain) for gain in gains]
    pairs, mean = len(values), fmean(values) if values else math.nan
    if pairs < 2 or not all(map(math.isfinite, values)):
        return Comparison(mean, -math.inf, math.inf, pairs, margin)
    half = float(stdtrit(pairs - 1, LEVEL)) * (stdev(values) / math.sqrt(pairs))
    return Comparison(mean, mean - half, mean + half, pairs, margin)
