"""Whether a variant loses accuracy against a baseline: non-inferiority from pairs of runs that share a seed.

    gains = differences(ours, baseline)        # a number a seed, positive where ours is better
    found = compare(gains.values(), margin)    # found.answer, found.low, found.high, found.resolved

The limits are one-sided 95 % each (Student's t over the pairs, so a 90 % interval). A margin should not be finer than
the test set resolves: `test_set_margin`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, stdev

NO_LOSS, LOSS, OPEN = "no loss", "loss", "open"
LEVEL, POWER = 0.95, 0.8  # of each one-sided limit; with which a difference is to be seen


@dataclass(frozen=True)
class Comparison:
    """Mean difference of `pairs` pairs with its two one-sided limits.

    margin    differences smaller than it do not count as a loss
    resolved  least difference that so many pairs of this spread distinguish from zero with power 0.8
    """

    mean: float
    low: float
    high: float
    pairs: int
    margin: float
    resolved: float

    @property
    def answer(self) -> str:
        """`no loss`: the lower limit is above minus the margin. `loss`: the upper limit is below zero and the mean is
        beyond the margin. Else `open`."""
        if self.low > -self.margin:
            return NO_LOSS
        return LOSS if self.high < 0 and self.mean < -self.margin else OPEN


def differences(
    ours: Mapping[int, float], baseline: Mapping[int, float], lower_is_better: bool = False
) -> dict[int, float]:
    """seed -> by how much ours is better, for the seeds that both sides have."""
    sign = -1 if lower_is_better else 1
    return {seed: sign * (ours[seed] - baseline[seed]) for seed in sorted(ours.keys() & baseline.keys())}


def compare(gains: Iterable[float], margin: float) -> Comparison:
    """The comparison of a difference a seed, positive where ours is better. With fewer than two pairs, or one that is
    not finite, nothing bounds the difference: its limits are infinite."""
    values = [float(gain) for gain in gains]
    pairs, mean = len(values), fmean(values) if values else math.nan
    if pairs < 2 or not all(map(math.isfinite, values)):
        return Comparison(mean, -math.inf, math.inf, pairs, margin, math.inf)
    error = stdev(values) / math.sqrt(pairs)
    half = quantile(LEVEL, pairs) * error
    return Comparison(mean, mean - half, mean + half, pairs, margin, noncentrality(pairs) * error)


def test_set_margin(share: float, examples: int) -> float:
    """The least difference of two shares near `share` that so many test examples resolve with power 0.8.

    The two are taken as independent. On the same examples their difference varies less, by how much they agree, which
    shares alone do not say: so the margin is on the safe side.
    """
    from scipy.special import ndtri  # the same of `scipy.stats` takes half a second to import

    error = math.sqrt(2 * share * (1 - share) / examples)
    return float(ndtri(LEVEL) + ndtri(POWER)) * error


def quantile(level: float, pairs: int) -> float:
    """Student's t of so many pairs."""
    from scipy.special import stdtrit

    return float(stdtrit(pairs - 1, level))


def noncentrality(pairs: int) -> float:
    """How many standard errors a true difference must have for the one-sided test to see it with power 0.8."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(pairs - 1, 1 - POWER, quantile(LEVEL, pairs)))
