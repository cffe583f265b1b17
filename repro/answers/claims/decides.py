"""Which assumed input decides a number: rank correlation over the draws, and whether it is told from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

RESAMPLES = 200
SEED = 20261126
NONE = "none alone"
LEAST = 0.25  # of the variance of ranks, below which an input decides nothing


def decides(result: Sequence[float], inputs: Mapping[str, Sequence[float]]) -> str:
    """The name of the input whose squared rank correlation with the result clears that of every other, by bootstrap
    intervals (5 to 95 %); `none alone` where none does; nothing where nothing differs."""
    ours = np.asarray(result, dtype=float)
    varied = {name: np.asarray(values[: len(ours)], float) for name, values in inputs.items() if len({*values}) > 1}
    if not varied or len(ours) < 8 or not np.isfinite(ours).all() or np.ptp(ours) == 0:
        return ""
    rng = np.random.default_rng(SEED)
    picks = np.vstack([np.arange(len(ours)), rng.integers(len(ours), size=(RESAMPLES, len(ours)))])
    found = {name: squared(ranks(ours)[picks], ranks(values)[picks]) for name, values in varied.items()}
    names = sorted(found, key=lambda name: -found[name][0])
    low = np.quantile(found[names[0]], 0.05)
    if found[names[0]][0] < LEAST or any(np.quantile(found[name], 0.95) >= low for name in names[1:]):
        return NONE
    return names[0]


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; ties share theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The correlation of each row of a with that of b, squared; 0 where one does not vary."""
    a, b = (rows - rows.mean(axis=1, keepdims=True) for rows in (a, b))
    both = (a**2).sum(axis=1) * (b**2).sum(axis=1)
    return np.divide((a * b).sum(axis=1) ** 2, both, out=np.zeros(len(a)), where=both > 0)
