"""Wilson's score interval of a share."""

from __future__ import annotations

import math


def wilson(share: float, of: int, z: float) -> float:
    """The end of Wilson's score interval z standard errors above a share of `of` cases (below, if z is negative).

    The interval has a width even for a share of 0 or 1.
    """
    half = z * math.sqrt(share * (1 - share) / of + z**2 / (4 * of**2))
    return (share + z**2 / (2 * of) + half) / (1 + z**2 / of)
