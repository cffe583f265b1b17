"""No injected delays."""

from __future__ import annotations

from repro.algorithms.imbalance.base import Imbalance


class NoImbalance(Imbalance):
    """No delays. `repro.algorithms.imbalance.imbalance_for` returns None for it, so a run never calls it."""

    name = "none"

    @property
    def longest(self) -> float:
        return 0.0

    def delays(self, iteration: int) -> list[float]:
        return [0.0] * self.workers
