"""Delays every worker, by a different amount in each step (eager-SGD section 6.2.3: 50 to 400 ms on 8 processes)."""

from __future__ import annotations

from dataclasses import dataclass

from repro.algorithms.imbalance.base import Imbalance
from repro.core.errors import InputError
from repro.core.fields import NonNegative


@dataclass
class Options:
    """low_s, high_s: the shortest and the longest delay of a step, in seconds"""

    low_s: NonNegative = 0.05
    high_s: NonNegative = 0.4

    def __post_init__(self) -> None:
        if self.low_s > self.high_s:
            raise InputError(f"imbalance.low_s={self.low_s}: must not be above imbalance.high_s={self.high_s}")


class Shifting(Imbalance):
    """Delays that grow linearly from low to high over the ranks, and shift by one rank after each step.

    "All 8 processes are skewed by injecting load imbalance from 50 ms to 400 ms at every training step. The injection
    amount over the processes is shifted after each step": with eight ranks 50, 100 ... 400 ms. The paper does not print
    the size of the shift. A single worker has the shortest delay.
    """

    name = "shifting"
    Options = Options

    @property
    def longest(self) -> float:
        return float(self.options.high_s)

    def delays(self, iteration: int) -> list[float]:
        low, high, last = self.options.low_s, self.options.high_s, max(1, self.workers - 1)
        places = ((worker + iteration) % self.workers for worker in range(self.workers))
        return [min(high, low + (high - low) * place / last) for place in places]
