"""Delays one random worker in each step (eager-SGD section 6.2.1: 1 of 8 by 200, 300 or 400 ms)."""

from __future__ import annotations

from dataclasses import dataclass

from repro.algorithms.imbalance.base import Imbalance
from repro.core.fields import NonNegative


@dataclass
class Options:
    """delay_s: the delay in seconds"""

    delay_s: NonNegative = 0.2


class RandomOne(Imbalance):
    """Every worker is equally likely."""

    name = "random_one"
    Options = Options

    @property
    def longest(self) -> float:
        return float(self.options.delay_s)

    def delays(self, iteration: int) -> list[float]:
        late = self.draws(iteration).randrange(self.workers)
        return [self.longest if worker == late else 0.0 for worker in range(self.workers)]
