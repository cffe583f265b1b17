"""A number and how far it can be off: what the runs say, and what went in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A point and the range around it that holds everything that is known to make it uncertain."""

    low: float
    point: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Interval:
        return cls(value, value, value)

    def and_these(self, values: Iterable[float]) -> Interval:
        """Wide enough for these values too, say of the inputs' other ends; the point stays."""
        every = [self.low, self.high, *values]
        return Interval(min(every), self.point, max(every))

    def off_by(self, error: float) -> Interval:
        """Where the number may be wrong by a factor of 1 + `error` either way."""
        ends = [end * factor for end in (self.low, self.high) for factor in (1 + error, 1 / (1 + error))]
        return self.and_these(ends)

    def beyond(self, value: float, above: bool) -> bool:
        """Whether all of it is on one side of a value."""
        return self.low > value if above else self.high < value

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high

    def width(self, ratio: bool) -> float:
        """On a log scale of a ratio, where what begins at 0 is endless."""
        if ratio:
            return math.log(self.high / self.low) if self.low > 0 and math.isfinite(self.high) else math.inf
        return self.high - self.low
