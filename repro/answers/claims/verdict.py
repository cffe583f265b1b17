"""Whether a claim holds (docs/design.md, Verdicts): the share of plausible inputs for which it does, and one of four
words. Nothing is ever typed in; a word that the share does not support is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from repro.answers.claims.stats import wilson

CONFIRMED, IN_DIRECTION, REFUTED, OPEN = "confirmed", "confirmed in direction", "refuted", "open"
# in the place of a verdict
BY_CONSTRUCTION, OUT_OF_SCOPE, NOT_TESTABLE, NOT_RUN = "by construction", "out of scope", "not testable here", "not run"
CONSISTENT = "consistent with implied input"  # in the place of confirmed: another of the paper's numbers went in
GIVEN = (BY_CONSTRUCTION, CONSISTENT)  # by what went in: nothing that was not tried, and nothing that a run found
UNJUDGED = (*GIVEN, OUT_OF_SCOPE, NOT_TESTABLE, NOT_RUN)

# Fixed on 2026-11-26, before the first draws.
MOST = 0.9  # a claim is confirmed where it holds for at least so many, refuted where for at most the rest
CONFIDENCE_Z = 1.2816  # one-sided 90 %: of the share that draws stand for, by Wilson's score interval
WITHIN_90 = (0.05, 0.95)  # quantiles between which 90 % of a sample lie


@dataclass(frozen=True)
class Share:
    """For how many of so many a claim holds. drawn: the many are draws, which stand for all others; else all there is,
    which has to agree."""

    hits: int
    of: int
    drawn: bool

    @property
    def most(self) -> bool:
        """Whether the claim holds for at least nine in ten."""
        return self._end(-1) >= MOST if self.drawn else self.hits == self.of

    @property
    def few(self) -> bool:
        """Whether it holds for at most one in ten."""
        return self._end(1) <= 1 - MOST if self.drawn else self.hits == 0

    def _end(self, sign: int) -> float:
        return wilson(self.hits / self.of, self.of, sign * CONFIDENCE_Z)

    @property
    def text(self) -> str:
        """`60 of 64`"""
        return f"{self.hits} of {self.of}"


@dataclass(frozen=True)
class Sample:
    """The values that a number may have: of draws, or of all seeds and repetitions."""

    values: Sequence[float]
    drawn: bool

    def share(self, holds: Callable[[float], bool]) -> Share:
        return Share(sum(map(holds, self.values)), len(self.values), self.drawn)


@dataclass(frozen=True)
class Interval:
    """A point and the range around it in which 90 % of the draws lie, or all seeds and repetitions."""

    low: float
    point: float
    high: float

    @classmethod
    def of(cls, point: float, sample: Sample) -> Interval:
        """Of a sample; the point lies in it."""
        ordered = sorted(value for value in sample.values if not math.isnan(value)) or [point]
        ends = [ordered[round(q * (len(ordered) - 1))] for q in (WITHIN_90 if sample.drawn else (0, 1))]
        return cls(min(ends[0], point), point, max(ends[1], point))


@dataclass(frozen=True)
class Effect:
    """What a claim of an effect claims: a value on one side of `none`; nearer than the margin is no effect.

    ratio: the margin is a factor of 1 + `margin`.
    """

    none: float
    margin: float
    side: Literal["above", "below"]
    ratio: bool = True

    @property
    def band(self) -> tuple[float, float]:
        """Between which values there is no effect."""
        if self.ratio:
            return self.none / (1 + self.margin), self.none * (1 + self.margin)
        return self.none - self.margin, self.none + self.margin

    def holds(self, value: float) -> bool:
        """Whether a value is on the claimed side, and no less than the margin away."""
        low, high = self.band
        return value > high if self.side == "above" else value < low


@dataclass(frozen=True)
class Verdict:
    """An answer, and the shares that it rests on. size: of an effect for which the paper prints a range.

    reason: why there is no verdict, or none that can be relied on.
    """

    answer: str
    share: Share | None = None
    size: Share | None = None
    reason: str = ""

    @property
    def judged(self) -> bool:
        return self.answer not in UNJUDGED

    def implied(self, by: str) -> Verdict:
        """The same where an input was implied by another of the paper's numbers: what is refuted is so even then."""
        return replace(self, answer=CONSISTENT, reason=by) if by and self.answer in (CONFIRMED, IN_DIRECTION) else self

    @property
    def settled(self) -> bool:
        """Whether the claim holds as it is printed."""
        return self.answer == CONFIRMED

    @property
    def text(self) -> str:
        """`confirmed in direction (64 of 64; its size 20 of 64)`"""
        said = "; its size ".join(share.text for share in (self.share, self.size) if share and share.drawn)
        if self.answer == OPEN and not said and not self.reason:
            said = "seeds or repetitions differ"
        return " ".join([self.answer, *(f"({part})" for part in (said, self.reason) if part)])


def of_effect(sample: Sample, effect: Effect, low: float | None, high: float | None) -> Verdict:
    """A claim that something makes a difference. low, high: the paper's range, widened by the tolerance, if it has two
    ends; else the claim has a direction alone."""
    direction = sample.share(effect.holds)
    if low is None or high is None:
        return Verdict(word(direction), direction)
    size = sample.share(lambda value: low <= value <= high)
    if size.most and not direction.few:
        return Verdict(CONFIRMED, direction, size)
    return Verdict(IN_DIRECTION if direction.most else word(direction), direction, size)


def of_value(sample: Sample, low: float | None, high: float | None) -> Verdict:
    """A value or a bound (an end is None), the tolerance in it."""
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    share = sample.share(lambda value: least <= value <= most)
    return Verdict(word(share), share)


def word(share: Share) -> str:
    """Confirmed, refuted, or open where a share supports neither."""
    return CONFIRMED if share.most else REFUTED if share.few else OPEN
