"""Counter-based random numbers: direct access to any part of a long stream, the same on every machine.

Philox (Salmon, Moraes, Dror, Shaw, SC 2011) computes numbers from a counter, so row 30,000 of a table costs as much as
row 0, and no table is stored. numpy guarantees the raw stream of its bit generators; all results are computed from it
in integers or with a single rounding.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Sequence

import numpy as np

NUMBERS_EACH = 4  # 64-bit numbers for each value of the counter


class Stream:
    """A stream of random rows, identified by its name. Threads may share it."""

    def __init__(self, *name: object):
        self._key = np.frombuffer(hashlib.sha256("/".join(map(str, name)).encode()).digest()[:16], "<u8")

    def rows(self, numbers: Sequence[int], values: int, kind: type[np.integer]) -> np.ndarray:
        """The rows with the given numbers: (len(numbers), values) uniform integers of a numpy type."""
        words = -(-values * np.dtype(kind).itemsize // 8)
        steps = -(-words // NUMBERS_EACH)
        bits = np.random.Philox(key=self._key)
        state = bits.state  # constructing a generator takes longer than a row
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


def normal_values(stream: Stream, numbers: Sequence[int]) -> np.ndarray:
    """Values (n,) float64 of mean 0 and variance 1, one for each number: sums of twelve uniform values, within +-6."""
    drawn = stream.rows(numbers, 12, np.uint16).astype(np.int64)
    return (2 * drawn.sum(1) - 12 * 65535) / 131072.0
