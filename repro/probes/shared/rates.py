"""Step rules, bounds and slopes of Pipe-SGD 3.3; what they are and where they come from: `repro.probes.convergence`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from repro.experiment.optimizer import Optimizer

POINTS = 60


def inverse_sqrt(F: float, L: float, K: int) -> Optimizer:
    """The convex objective's steps, as entries of `optimizer`."""
    return Optimizer(lr=F / (2 * L * math.sqrt(K)), schedule="inverse_sqrt")


def inverse(mu: float) -> Optimizer:
    """The strongly convex objective's steps."""
    return Optimizer(lr=1 / mu, schedule="inverse")


def convex_bound(F: float, L: float, K: int, t: int) -> float:
    """Of the average regret: 8 F L sqrt(K / t)."""
    return 8 * F * L * math.sqrt(K / t)


def strongly_convex_bound(F: float, L: float, K: int, mu: float, t: int) -> float:
    """Of the average regret: (mu tau F^2 + (1/2 + tau) L^2 / mu (1 + log t)) / t, tau = K - 1."""
    tau = K - 1
    return (mu * tau * F**2 + (0.5 + tau) * L**2 / mu * (1 + math.log(t))) / t


def points(T: int) -> list[int]:
    """Iterations 1 .. T, about evenly spaced in their logarithms."""
    return sorted({round(T ** (i / (POINTS - 1))) for i in range(POINTS)})


def slope(series: Sequence[tuple[float, float]]) -> float | None:
    """Least squares of log y against log t; None where fewer than two y are above 0."""
    logs = [(math.log(t), math.log(y)) for t, y in series if y > 0]
    if len(logs) < 2:
        return None
    mean_t, mean_y = (sum(column) / len(logs) for column in zip(*logs))
    return sum((t - mean_t) * (y - mean_y) for t, y in logs) / sum((t - mean_t) ** 2 for t, _ in logs)
