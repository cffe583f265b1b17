"""Verdicts (docs/design.md, Verdicts): the share of plausible inputs for which a claim holds, and one of four words.

Every verdict is computed. A word that the share does not support is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from repro.answers.claims.stats import wilson

CONFIRMED, IN_DIRECTION, REFUTED, OPEN = "confirmed", "confirmed in direction", "refuted", "open"
# instead of a verdict
BY_CONSTRUCTION, OUT_OF_SCOPE, NOT_TESTABLE, NOT_RUN = "by construction", "out of scope", "not testable here", "not run"
CONSISTENT = "consistent with implied input"  # instead of confirmed: an input was taken from the paper's own numbers
GIVEN = (BY_CONSTRUCTION, CONSISTENT)  # the inputs decide, not the runs
UNJUDGED = (*GIVEN, OUT_OF_SCOPE, NOT_TESTABLE, NOT_RUN)

# Fixed on 2026-11-26, before the first draws.
MOST = 0.9  # the share for which a confirmed claim holds at least; a refuted one holds for at most 1 - MOST
CONFIDENCE_Z = 1.2816  # one-sided 90 % limit of the share, by Wilson's score interval
WITHIN_90 = (0.05, 0.95)  # quantiles that enclose 90 % of a sample


@dataclass(frozen=True)
class Share:
    """In how many cases a claim holds. drawn: the cases are draws from all possible inputs; else they are all there are
    and have to agree."""

    hits: int
    of: int
    drawn: bool

    @property
    def most(self) -> bool:
        """Whether the claim holds for at least 90 % of the inputs."""
        return self._end(-1) >= MOST if self.drawn else self.hits == self.of

    @property
    def few(self) -> bool:
        """Whether the claim holds for at most 10 % of the inputs."""
        return self._end(1) <= 1 - MOST if self.drawn else self.hits == 0

    def _end(self, sign: int) -> float:
        return wilson(self.hits / self.of, self.of, sign * CONFIDENCE_Z)

    @property
    def text(self) -> str:
        """`60 of 64`"""
        return f"{self.hits} of {self.of}"


@dataclass(frozen=True)
class Sample:
    """The values of a number: over draws, or over all seeds and repetitions."""

    values: Sequence[float]
    drawn: bool

    @property
    def varies(self) -> bool:
        """Whether the values differ by more than rounding."""
        known = [value for value in self.values if not math.isnan(value)]
        return bool(known) and not math.isclose(min(known), max(known), rel_tol=1e-6)

    def share(self, holds: Callable[[float], bool]) -> Share:
        return Share(sum(map(holds, self.values)), len(self.values), self.drawn)


@dataclass(frozen=True)
class Interval:
    """A point, and the range around it that holds 90 % of the draws, or all seeds and repetitions.

    The point is the number as configured, or the median draw where that is not within the range.
    """

    low: float
    point: float
    high: float

    @classmethod
    def of(cls, point: float, sample: Sample) -> Interval:
        """The range of a sample."""
        ordered = sorted(value for value in sample.values if not math.isnan(value)) or [point]
        low, high = (ordered[round(q * (len(ordered) - 1))] for q in (WITHIN_90 if sample.drawn else (0, 1)))
        if sample.drawn and not low < point < high:
            point = median(ordered)
        return cls(low, point, high).around(point)

    def around(self, point: float) -> Interval:
        """The range, widened to include another point."""
        return Interval(min(self.low, point), point, max(self.high, point))


@dataclass(frozen=True)
class Effect:
    """A claimed effect: a value on one side of `none`, the value of no effect, and farther from it than the margin.

    ratio: the margin is a factor of 1 + `margin`.
    """

    none: float
    margin: float
    side: Literal["above", "below"]
    ratio: bool = True

    @property
    def band(self) -> tuple[float, float]:
        """The values between which there is no effect."""
        if self.ratio:
            return self.none / (1 + self.margin), self.none * (1 + self.margin)
        return self.none - self.margin, self.none + self.margin

    def holds(self, value: float) -> bool:
        """Whether a value is on the claimed side, beyond the margin."""
        low, high = self.band
        return value > high if self.side == "above" else value < low


@dataclass(frozen=True)
class Verdict:
    """An answer and the shares behind it. size: the share within the range that the paper prints for an effect.

    reason: why there is no verdict, or no reliable one.
    """

    answer: str
    share: Share | None = None
    size: Share | None = None
    reason: str = ""

    @property
    def judged(self) -> bool:
        return self.answer not in UNJUDGED

    def implied(self, by: str) -> Verdict:
        """The verdict where an input was taken from the paper's own numbers: confirmed becomes consistent with it."""
        return replace(self, answer=CONSISTENT, reason=by) if by and self.answer in (CONFIRMED, IN_DIRECTION) else self

    @property
    def settled(self) -> bool:
        """Whether the claim holds as printed."""
        return self.answer == CONFIRMED

    @property
    def text(self) -> str:
        """`confirmed in direction (64 of 64; its size 20 of 64)`"""
        shares = "; its size ".join(share.text for share in (self.share, self.size) if share and share.drawn)
        if self.answer == OPEN and not shares and not self.reason:
            shares = "seeds or repetitions differ"
        return " ".join([self.answer, *(f"({part})" for part in (shares, self.reason) if part)])


def verdict_of(sample: Sample, low: float | None, high: float | None, effect: Effect | None = None) -> Verdict:
    """The verdict on a value, a bound (one end is None) or an effect.

    low, high: the paper's range, widened by the tolerance. An effect of which one end is None has a direction alone.
    """
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    in_range = sample.share(lambda value: least <= value <= most)
    if effect is None:
        return Verdict(word(in_range), in_range)
    direction = sample.share(effect.holds)
    if low is None or high is None:
        return Verdict(word(direction), direction)
    if in_range.most and not direction.few:
        return Verdict(CONFIRMED, direction, in_range)
    return Verdict(IN_DIRECTION if direction.most else word(direction), direction, in_range)


def word(share: Share) -> str:
    """Confirmed, refuted, or open where the share supports neither."""
    return CONFIRMED if share.most else REFUTED if share.few else OPEN
