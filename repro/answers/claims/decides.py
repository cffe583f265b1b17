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
    picks = [np.arange(len(ours)), *(rng.integers(len(ours), size=len(ours)) for _ in range(RESAMPLES))]
    found = {name: [squared(ours[pick], values[pick]) for pick in picks] for name, values in varied.items()}
    names = sorted(found, key=lambda name: -found[name][0])
    low = np.quantile(found[names[0]], 0.05)
    if found[names[0]][0] < LEAST or any(np.quantile(found[name], 0.95) >= low for name in names[1:]):
        return NONE
    return names[0]


def squared(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation, squared; ties share their ranks."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1] ** 2)
