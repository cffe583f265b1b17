"""The noise of a cloud instance (eager-SGD section 2.3, Figure 4): a batch's time in excess of the fastest batch.

Figure 4's batches of ResNet-50 have equal work and take 399 to 1,892 ms, mean 454 ms, standard deviation 116 ms. The
paper does not print the distribution. Here the excess over the minimum is log-normal, truncated at the maximum
(1.493 s), with the published mean (55 ms) and deviation (verified by a test). Delays are independent draws for every
worker and step, in addition to the computation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from repro.algorithms.imbalance.base import Imbalance
from repro.core.fields import NonNegative

MINIMUM_S, MEAN_S, DEVIATION_S, MAXIMUM_S = 0.399, 0.454, 0.116, 1.892  # Figure 4
MU, SIGMA = -4.0140257, 1.5620746  # of the logarithm of seconds
LARGEST_S = MAXIMUM_S - MINIMUM_S
NORMAL = NormalDist()
BELOW_LARGEST = NORMAL.cdf((math.log(LARGEST_S) - MU) / SIGMA)


@dataclass
class Options:
    """scale: factor of every draw; 1: as in Figure 4, where a batch took at least 399 ms"""

    scale: NonNegative = 1.0


class Cloud(Imbalance):
    """Heavy-tailed: the median delay is 18 ms, one in sixty is above half a second."""

    name = "cloud"
    Options = Options

    @property
    def longest(self) -> float:
        return LARGEST_S * self.options.scale

    def delays(self, iteration: int) -> list[float]:
        draws, scale = self.draws(iteration), self.options.scale
        return [scale * excess_seconds(draws.random()) for _ in range(self.workers)]


def excess_seconds(share: float) -> float:
    """The quantile, in seconds above the fastest batch, of a share from 0 to 1."""
    below = share * BELOW_LARGEST
    return min(LARGEST_S, math.exp(MU + SIGMA * NORMAL.inv_cdf(below))) if below > 0 else 0.0
