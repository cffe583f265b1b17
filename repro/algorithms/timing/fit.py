"""Least-squares fit of the alpha-beta model to measured (bytes, seconds) points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro.core.errors import InputError

Row = Callable[[int], tuple[float, float]]


@dataclass(frozen=True)
class Fit:
    """alpha: seconds; beta: seconds a byte; residuals: measured minus fitted seconds, in the points' order.

    relative_error: the largest |residual| as a fraction of its measured time.
    """

    alpha: float
    beta: float
    residuals: list[float]
    relative_error: float


def fit_alpha_beta(points: Sequence[tuple[int, float]], row: Row = lambda n: (1.0, float(n))) -> Fit:
    """seconds = messages x alpha + carried x beta, both at least 0, where `row(bytes)` is (messages, carried).

    Each point is weighted by 1 / seconds, so that small messages, which alone determine alpha, are not drowned by large
    ones. InputError for fewer than two sizes or a time that is not above 0.
    """
    import numpy as np
    from scipy.optimize import lsq_linear

    if len({n for n, _ in points}) < 2:
        raise InputError("a fit of alpha and beta needs measurements of at least two sizes")
    if wrong := [seconds for _, seconds in points if not seconds > 0]:
        raise InputError(f"a fit needs times above 0 seconds, not {wrong[0]}")
    rows, seconds = np.array([row(n) for n, _ in points], float), np.array([s for _, s in points])
    weighted = rows * (1 / seconds)[:, None]
    scale = np.abs(weighted).max(axis=0)  # bytes and counts differ by 10^6
    fitted = lsq_linear(weighted / scale, seconds * (1 / seconds), bounds=(0, np.inf), method="bvls").x / scale
    residuals = seconds - (rows * fitted).sum(axis=1)
    alpha, beta = fitted.tolist()
    return Fit(alpha, beta, residuals.tolist(), float(np.max(np.abs(residuals) / seconds)))
