"""Wilson's score interval of a share."""

from __future__ import annotations

import math


def wilson_bound(share: float, cases: int, z: float) -> float:
    """The end of Wilson's score interval z standard errors above a share of so many cases (below, if z is negative).

    The interval has a width even for a share of 0 or 1.
    """
    half = z * math.sqrt(share * (1 - share) / cases + z**2 / (4 * cases**2))
    return (share + z**2 / (2 * cases) + half) / (1 + z**2 / cases)
