"""Find the assumed input that decides a number: squared rank correlation over the draws, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

RESAMPLES = 200
SEED = 20261126
NONE = "none alone"
LEAST = 0.25  # share of the variance of ranks below which an input decides nothing


def deciding_input(result: Sequence[float], inputs: Mapping[str, Sequence[float]]) -> str:
    """The input whose squared rank correlation with the result exceeds that of every other input.

    Bootstrap intervals (5 to 95 %) must not overlap; where they do, the answer is `none alone`. It is "" where the
    result or all inputs are constant.
    """
    numbers = np.asarray(result, dtype=float)
    varied = {name: np.asarray(values[: len(numbers)], float) for name, values in inputs.items() if len({*values}) > 1}
    if not varied or len(numbers) < 8 or not np.isfinite(numbers).all() or np.ptp(numbers) == 0:
        return ""
    rng = np.random.default_rng(SEED)
    samples = np.vstack([np.arange(len(numbers)), rng.integers(len(numbers), size=(RESAMPLES, len(numbers)))])
    shares = {name: squared(ranks(numbers)[samples], ranks(values)[samples]) for name, values in varied.items()}
    first, *others = sorted(shares, key=lambda name: -shares[name][0])
    low = np.quantile(shares[first], 0.05)
    if shares[first][0] < LEAST or any(np.quantile(shares[name], 0.95) >= low for name in others):
        return NONE
    return first


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal values have their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The squared correlation of each row of a with the same row of b; 0 where a row is constant."""
    a, b = (rows - rows.mean(axis=1, keepdims=True) for rows in (a, b))
    both = (a**2).sum(axis=1) * (b**2).sum(axis=1)
    return np.divide((a * b).sum(axis=1) ** 2, both, out=np.zeros(len(a)), where=both > 0)
