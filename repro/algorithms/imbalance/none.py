"""No injected delays."""

from __future__ import annotations

from repro.algorithms.imbalance.base import Imbalance


class NoImbalance(Imbalance):
    """Every worker begins at once. A run does not even ask: `repro.algorithms.imbalance.of` gives it nothing to ask."""

    name = "none"

    @property
    def longest(self) -> float:
        return 0.0

    def delays(self, iteration: int) -> list[float]:
        return [0.0] * self.workers
