"""Delays `n` random workers in each step (eager-SGD section 6.2.2: 4 of 64 by 300 or 460 ms)."""

from __future__ import annotations

from dataclasses import dataclass

from repro.algorithms.imbalance.base import Imbalance
from repro.core.errors import InputError
from repro.core.fields import Count, NonNegative


@dataclass
class RandomNOptions:
    """n: delayed workers of a step, 1 to workers · delay_s: their delay in seconds"""

    n: Count = 4
    delay_s: NonNegative = 0.3


class RandomN(Imbalance):
    """Every set of n workers is equally likely."""

    name = "random_n"
    Options = RandomNOptions

    def __init__(self, options: RandomNOptions, workers: int, seed: int):
        super().__init__(options, workers, seed)
        if options.n > workers:
            raise InputError(f"imbalance.n={options.n}: must be a whole number, 1 to workers={workers}")

    @property
    def longest(self) -> float:
        return float(self.options.delay_s)

    def delays(self, iteration: int) -> list[float]:
        late = set(self.draws(iteration).sample(range(self.workers), self.options.n))
        return [self.longest if worker in late else 0.0 for worker in range(self.workers)]
