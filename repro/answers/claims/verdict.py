"""Whether a claim holds, from an interval alone (docs/design.md, Verdicts): an effect has a direction and a size, all
else one answer. Nothing is ever typed in, and what cannot be told is said not to be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

HOLDS, FAILS, INCONCLUSIVE = "holds", "fails", "inconclusive"
NO_EFFECT, OPPOSITE = "no effect", "opposite"
# in the place of a verdict
BY_CONSTRUCTION, OUT_OF_SCOPE, NOT_TESTABLE, NOT_RUN = "by construction", "out of scope", "not testable here", "not run"
CONSISTENT = "consistent with implied input"  # in the place of holds: another of the paper's numbers went in
UNJUDGED = (BY_CONSTRUCTION, CONSISTENT, OUT_OF_SCOPE, NOT_TESTABLE, NOT_RUN)
WITHIN, WEAKER, STRONGER = "within", "weaker", "stronger"
WIDEST = 2.0  # of an interval that can be said to lie within the paper's range, in widths of that range


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


@dataclass(frozen=True)
class Effect:
    """What a claim of an effect claims: a value on one side of `none`; nearer than the margin is no effect.

    ratio: sizes are compared on a log scale, and the margin is a factor of 1 + `margin`.
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

    def size(self, value: float) -> float:
        """How large the effect of a value is, on the claim's side positive."""
        if self.ratio and (value <= 0 or math.isinf(value)):  # no time at all, or a target never reached
            return math.inf if (value > 0) == (self.side == "above") else -math.inf
        size = math.log(value / self.none) if self.ratio else value - self.none
        return size if self.side == "above" else -size


@dataclass(frozen=True)
class Verdict:
    """An answer; of an effect also its size, and which share of the paper's nearest number ours is.

    reason: why there is no verdict, or none that can be relied on.
    """

    answer: str
    size: str = ""
    share: float | None = None
    reason: str = ""

    @property
    def judged(self) -> bool:
        return self.answer not in UNJUDGED

    def implied(self, by: str) -> Verdict:
        """The same where an input was implied by another of the paper's numbers: what fails, fails even so."""
        return replace(self, answer=CONSISTENT, reason=by) if by and self.answer == HOLDS else self

    @property
    def settled(self) -> bool:
        """Whether the claim holds as it is printed."""
        return self.answer == HOLDS and self.size in ("", WITHIN)

    @property
    def text(self) -> str:
        """`holds, weaker (61 % of the effect)`"""
        share = f" ({100 * self.share:.0f} % of the effect)" if self.share is not None else ""
        sized = f"size {self.size}" if self.size == INCONCLUSIVE else f"{self.size}{share}" if self.size else ""
        if self.answer == self.size:  # inconclusive in both, which is said once
            sized = ""
        text = ", ".join(filter(None, (self.answer, sized)))
        return f"{text} ({self.reason})" if self.reason else text


def of_effect(ours: Interval, effect: Effect, low: float | None, high: float | None) -> Verdict:
    """A claim that something makes a difference; low, high: the paper's range, widened by the tolerance, if it has two
    ends: else the claim has a direction alone, and so has an effect the other way."""
    answer = direction(ours, effect)
    if low is None or high is None or answer == OPPOSITE:
        return Verdict(answer)
    size = of_size(ours, effect, low, high)
    share = None
    if size in (WEAKER, STRONGER):
        nearest = min((low, high), key=lambda end: abs(effect.size(end) - effect.size(ours.point)))
        share = effect.size(ours.point) / effect.size(nearest) if effect.size(nearest) else None
        share = share if share is not None and math.isfinite(share) else None
    return Verdict(answer, size, share)


def direction(ours: Interval, effect: Effect) -> str:
    """On which side of no effect all of the interval is."""
    low, high = effect.band
    above, below = ours.beyond(high, above=True), ours.beyond(low, above=False)
    if ours.within(low, high):
        return NO_EFFECT
    if above or below:
        return HOLDS if above == (effect.side == "above") else OPPOSITE
    return INCONCLUSIVE


def of_size(ours: Interval, effect: Effect, low: float, high: float) -> str:
    """Ours beside the paper's range: within it where the point is and the interval is not much wider than the range."""
    if ours.beyond(high, above=True) or ours.beyond(low, above=False):
        far = effect.size(ours.point) > max(effect.size(low), effect.size(high))
        return STRONGER if far else WEAKER
    range_ = Interval(low, low, high).width(effect.ratio)
    if low <= ours.point <= high and ours.width(effect.ratio) <= WIDEST * range_:
        return WITHIN
    return INCONCLUSIVE


def of_value(ours: Interval, low: float | None, high: float | None) -> Verdict:
    """A value or a bound (an end is None), the tolerance in it: all of the interval has to be on one side of an end."""
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    if ours.within(least, most):
        return Verdict(HOLDS)
    return Verdict(FAILS if ours.beyond(most, above=True) or ours.beyond(least, above=False) else INCONCLUSIVE)
