"""Random numbers by their place: any stretch of a long stream, at once, the same on every machine.

Philox (Salmon, Moraes, Dror, Shaw, SC 2011) turns a counter into numbers, so row 30,000 of a table costs what row 0
does and no table has to be kept. numpy promises the raw stream of its bit generators; everything here is made of that
in whole numbers or by single roundings.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Sequence

import numpy as np

WORDS = 4  # 64-bit numbers a step of the counter


class Stream:
    """The stream of a name: rows of numbers, each by its own number. Threads may share one."""

    def __init__(self, *name: object):
        self._key = np.frombuffer(hashlib.sha256("/".join(map(str, name)).encode()).digest()[:16], "<u8")

    def rows(self, numbers: Sequence[int], values: int, kind: type[np.integer]) -> np.ndarray:
        """Rows (len(numbers), values) of uniform whole numbers of a numpy type, each as its number says."""
        words = -(-values * np.dtype(kind).itemsize // 8)
        steps = -(-words // WORDS)
        bits = np.random.Philox(key=self._key)
        state = bits.state  # making one a row would take longer than the row
        out = np.empty((len(numbers), words), "<u8")
        for row, number in enumerate(numbers):
            state["state"]["counter"][0] = number * steps
            bits.state = state
            out[row] = bits.random_raw(words)
        return out.view(np.dtype(kind).newbyteorder("<"))[:, :values]


def log_normal_lengths(count: int, median: float, spread: float, shortest: int, longest: int) -> list[int]:
    """`count` whole lengths at evenly spaced quantiles of a log-normal distribution, clipped to shortest .. longest."""
    inverse = statistics.NormalDist().inv_cdf
    quantiles = [median * math.exp(spread * inverse((i + 0.5) / count)) for i in range(count)]
    return [min(max(round(length), shortest), longest) for length in quantiles]


def normal(stream: Stream, numbers: Sequence[int]) -> np.ndarray:
    """One value a number, (n,) float64 of mean 0 and variance 1: the sum of twelve uniform ones, within +-6."""
    drawn = stream.rows(numbers, 12, np.uint16).astype(np.int64)
    return (2 * drawn.sum(1) - 12 * 65535) / 131072.0
