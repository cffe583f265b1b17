"""Find the assumed input that decides a number (squared rank correlation over the draws, with bootstrap intervals), and
the value of an input at which an answer turns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from repro.answers.claims.stats import format_number

RESAMPLES = 200
SEED = 20261126
NONE = "none alone"
LEAST = 0.25  # share of the variance of ranks below which an input decides nothing
WRONG = 0.1  # share of all draws on the wrong side of the value at which an answer turns, at most
WRONG_OF_RARER = 0.25  # and of the draws with the rarer answer
RARER = 3  # draws with the rarer answer, below which an end of some input has them all by chance
UNITS = {
    "_s_per_byte": (1e9, " ns a byte ({})"),
    "_s": (1e3, " ms ({})"),
    "_flops": (1e-9, " GFLOP/s ({})"),
}  # ending of an entry's name -> factor, and unit with the place of the input's name


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
    shares = {
        name: squared_correlations(rank_values(numbers)[samples], rank_values(values)[samples])
        for name, values in varied.items()
    }
    first, *others = sorted(shares, key=lambda name: -shares[name][0])
    low = np.quantile(shares[first], 0.05)
    if shares[first][0] < LEAST or any(np.quantile(shares[name], 0.95) >= low for name in others):
        return NONE
    return first


def turning_value(holds: Sequence[bool], inputs: Mapping[str, tuple[str, Sequence[Any]]]) -> str:
    """`below 24 ns a byte (merge)`: where an answer holds, by the input that separates these draws best; "" if none
    separates nearly all.

    inputs: input, in words -> its entry and the entry's value a draw.
    """
    rarer = min(sum(holds), len(holds) - sum(holds))
    most = min(WRONG * len(holds), WRONG_OF_RARER * rarer)
    splits = [split for name, (entry, values) in inputs.items() for split in _splits(name, entry, values, holds)]
    wrong, text = min(splits, key=lambda split: split[0], default=(math.inf, ""))
    return text if rarer >= RARER and wrong <= most else ""


def _splits(name: str, entry: str, values: Sequence[Any], holds: Sequence[bool]) -> list[tuple[int, str]]:
    """(draws on the wrong side, text) for each place at which an input may separate the draws."""
    if not all(isinstance(value, int | float) for value in values):
        kinds = dict.fromkeys(str(value) for value in values if value is not None)  # None is no value
        yes = {kind: sum(h if str(v) == kind else not h for v, h in zip(values, holds, strict=True)) for kind in kinds}
        return [(len(holds) - right, f"at {kind} ({name})") for kind, right in yes.items() if len({*values}) > 1]
    order = sorted(zip(values, holds, strict=True))
    made, below, total = [], 0, sum(holds)
    for n, ((low, held), (high, _)) in enumerate(pairwise(order), start=1):
        below += held
        if low < high:
            missed = (n - below) + (total - below)  # if it holds below
            at = _between(entry, low, high).format(name)
            made += [(missed, f"below {at}"), (len(holds) - missed, f"above {at}")]
    return made


def _between(entry: str, low: float, high: float) -> str:
    """The value between two neighbours, in a unit; both where they are far apart; `{}` stands for the input's name."""
    stem = entry.rpartition(".")[2] if not any(f"{end}." in entry for end in UNITS) else entry.rpartition(".")[0]
    by, unit = next((shown_as for end, shown_as in UNITS.items() if stem.endswith(end)), (1.0, " ({})"))
    if low > 0 and high / low < 1.2:
        return f"{format_number(by * math.sqrt(low * high), 2)}{unit}"
    return f"{format_number(by * low, 2)} to {format_number(by * high, 2)}{unit}"


def rank_values(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal values have their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def squared_correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The squared correlation of each row of a with the same row of b; 0 where a row is constant."""
    a, b = (rows - rows.mean(axis=1, keepdims=True) for rows in (a, b))
    both = (a**2).sum(axis=1) * (b**2).sum(axis=1)
    return np.divide((a * b).sum(axis=1) ** 2, both, out=np.zeros(len(a)), where=both > 0)
