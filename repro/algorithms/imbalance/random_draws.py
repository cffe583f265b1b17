"""Delays each worker that draws its own rank, as eager-SGD's released code for ImageNet does.

There (github.com/Shigangli/eager-SGD, test-models/tf-models-r1.11/official/resnet/resnet_run_loop_solo_imagenet_300.py,
lines 291 to 294) all ranks seed NumPy with the same number. In each step a rank sleeps 0.32 s if the first rank that it
draws is its own, or else the second. It does not draw a second one after a first hit, so the ranks' random sequences
soon differ. Of 64 ranks 2 are late on average, and in one step of seven nobody is (the paper: 4 in every step).
"""

from __future__ import annotations

from dataclasses import dataclass

from repro.algorithms.imbalance.base import Imbalance
from repro.core.fields import Count, NonNegative


@dataclass
class Options:
    """number: draws of a worker in each step · delay_s: its delay in seconds"""

    number: Count = 2
    delay_s: NonNegative = 0.32


class RandomDraws(Imbalance):
    """Workers draw independently; the first few steps of the released code, with equal sequences, are left out."""

    name = "random_draws"
    Options = Options

    @property
    def longest(self) -> float:
        return float(self.options.delay_s)

    def delays(self, iteration: int) -> list[float]:
        draws = self.draws(iteration)
        # rank 0 stands for a worker's own: each rank is equally likely
        hits = [[draws.randrange(self.workers) == 0 for _ in range(self.options.number)] for _ in range(self.workers)]
        return [self.longest if any(draws) else 0.0 for draws in hits]
