"""Least-squares fit of the alpha-beta model to measured (bytes, seconds) points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from repro.core.errors import InputError


@dataclass(frozen=True)
class Fit:
    """alpha: seconds; beta, gamma: seconds a byte; residuals: measured minus fitted seconds, in the points' order.

    relative_error: the largest |residual| as a fraction of its measured time.
    """

    alpha: float
    beta: float
    gamma: float
    residuals: list[float]
    relative_error: float


def fit_terms(rows: Sequence[Sequence[float]], seconds: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nonnegative x that makes rows @ x closest to `seconds` (weighted least squares; as many x as a row is long).

    With two or three unknowns the best of all least-squares solutions over subsets of them (the others zero) is exact.
    """
    import numpy as np

    matrix = np.asarray(rows, float) * np.asarray(weights, float)[:, None]
    target = np.asarray(seconds, float) * np.asarray(weights, float)
    width = matrix.shape[1]
    scale = np.where(np.abs(matrix).max(axis=0) > 0, np.abs(matrix).max(axis=0), 1.0)  # bytes and counts differ by 10^6
    best, best_error = np.zeros(width), float(target @ target)
    for size in range(1, width + 1):
        for chosen in combinations(range(width), size):
            columns = list(chosen)
            found, *_ = np.linalg.lstsq(matrix[:, columns] / scale[columns], target, rcond=None)
            if (found < 0).any():
                continue
            x = np.zeros(width)
            x[columns] = found / scale[columns]
            error = float(((matrix @ x - target) ** 2).sum())
            if error < best_error:
                best, best_error = x, error
    return [float(value) for value in best]


def fit_alpha_beta(points: Sequence[tuple[int, float]], relative: bool = True) -> Fit:
    """seconds = alpha + beta x bytes, both at least 0.

    `relative` weighs each point by 1 / seconds, so that small messages, which alone tell alpha, are not drowned by
    large ones. InputError for fewer than two sizes or a time that is not above 0.
    """
    return fit_form(lambda n, alpha, beta, gamma: alpha + n * beta, points, relative)


def fit_form(
    form: Callable[[int, float, float, float], float], points: Sequence[tuple[int, float]], relative: bool = True
) -> Fit:
    """alpha, beta and gamma of a closed form (n, alpha, beta, gamma) -> seconds that is linear in each of the three.

    So is each closed form as long as no maximum in it changes sides. gamma cannot be told from beta where both
    multiply the same bytes (all sizes of one collective): it then comes out as 0 and beta holds both.
    """
    if len({n for n, _ in points}) < 2:
        raise InputError("a fit of alpha and beta needs measurements of at least two sizes")
    if wrong := [seconds for _, seconds in points if not seconds > 0]:
        raise InputError(f"a fit needs times above 0 seconds, not {wrong[0]}")
    rows: list[tuple[float, ...]] = [
        (form(n, 1.0, 0.0, 0.0), form(n, 0.0, 1.0, 0.0), form(n, 0.0, 0.0, 1.0)) for n, _ in points
    ]
    if all(row[2] == 0 or row[1] == 0 for row in rows) or _proportional(rows):
        rows = [row[:2] for row in rows]
    seconds = [s for _, s in points]
    weights = [1 / s if relative else 1.0 for s in seconds]
    x = fit_terms(rows, seconds, weights)
    residuals = [s - sum(a * b for a, b in zip(row, x)) for row, s in zip(rows, seconds)]
    alpha, beta, gamma = (*x, 0.0)[:3]
    return Fit(alpha, beta, gamma, residuals, max(abs(r) / s for r, s in zip(residuals, seconds)))


def _proportional(rows: Sequence[Sequence[float]]) -> bool:
    """Whether the third column is a multiple of the second."""
    ratios = {round(row[2] / row[1], 9) for row in rows if row[1]}
    return len(ratios) <= 1
