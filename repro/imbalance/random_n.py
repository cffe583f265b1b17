"""`n` workers, drawn anew in each step, are late (eager-SGD section 6.2.2: 4 of 64 by 300 or 460 ms)."""

from __future__ import annotations

from dataclasses import dataclass

from repro.common.errors import InputError
from repro.imbalance.base import Imbalance, check_seconds


@dataclass
class Options:
    """n: how many workers a step, 1 to workers · delay_s: by so many seconds each"""

    n: int = 4
    delay_s: float = 0.3

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or isinstance(self.n, bool) or self.n < 1:
            raise InputError(f"imbalance.n={self.n}: must be a whole number, 1 to workers")
        check_seconds("delay_s", self.delay_s)


class RandomN(Imbalance):
    """Without replacement, each set of n equally likely."""

    name = "random_n"
    Options = Options

    def __init__(self, options: Options, workers: int, seed: int):
        super().__init__(options, workers, seed)
        if options.n > workers:
            raise InputError(f"imbalance.n={options.n}: must be a whole number, 1 to workers={workers}")

    @property
    def longest(self) -> float:
        return float(self.options.delay_s)

    def delays(self, iteration: int) -> list[float]:
        late = set(self.draws(iteration).sample(range(self.workers), self.options.n))
        return [self.longest if worker in late else 0.0 for worker in range(self.workers)]
