"""Delays workers that are drawn `draws` times each step, as eager-SGD's released code for ImageNet does.

There (github.com/Shigangli/eager-SGD, test-models/tf-models-r1.11/official/resnet/resnet_run_loop_solo_imagenet_300.py,
lines 291 to 294) every rank seeds NumPy alike and each step sleeps 0.32 s if the first number that it draws is its own
rank, or else the second. A rank that finds itself in the first does not draw the second: from then on its numbers are
others than the other ranks', and soon every rank's are its own. Two of them may then draw themselves in one step, or
none: of 64 ranks 2 are late on average, and in one step of seven nobody is (the paper: 4 random ones in every step).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from repro.algorithms.imbalance.base import Imbalance
from repro.core.fields import Count, NonNegative


@dataclass
class Options:
    """number: how often a worker draws a rank, of which one may be its own · delay_s: its delay in seconds"""

    number: Count = 2
    delay_s: NonNegative = 0.32


class RandomDraws(Imbalance):
    """Every worker draws by itself; the few steps before the ranks' numbers have parted are left out."""

    name = "random_draws"
    Options = Options

    @property
    def longest(self) -> float:
        return float(self.options.delay_s)

    def delays(self, iteration: int) -> list[float]:
        draws = self.draws(iteration)
        return [self.longest if self._late(draws) else 0.0 for _ in range(self.workers)]

    def _late(self, draws: random.Random) -> bool:
        """Whether a worker drew itself: which rank that is does not change how likely it is."""
        return any([draws.randrange(self.workers) == 0 for _ in range(self.options.number)])
