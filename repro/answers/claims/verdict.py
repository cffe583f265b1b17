"""Verdicts (docs/design.md, Verdicts): is there the effect, and is it of the printed size? Each is a share of plausible
inputs; one word says both.

Every verdict is computed. A word that the share does not support is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Literal

from repro.answers.claims.stats import format_number
from repro.core.wilson import wilson_bound


@dataclass(frozen=True)
class Word:
    """How a word is shown: on the site (tone, a class in `static/site.css`), in figures (colour, marker), and where
    claims are listed under another heading than the word."""

    tone: Literal["good", "partly", "less", "more", "bad", "open", "none"]
    colour: str = ""
    marker: str = ""
    heading: str = ""


REPRODUCED, SMALLER, LARGER = "reproduced", "smaller", "larger"
SAME_DIRECTION, NOT_REPRODUCED, OPEN = "same direction", "not reproduced", "open"
# instead of a verdict
BY_CONSTRUCTION, OUT_OF_SCOPE, NOT_TESTABLE, NOT_RUN = "by construction", "out of scope", "not testable here", "not run"
CONSISTENT = "consistent with implied input"  # instead of reproduced: an input was taken from the paper's own numbers
NOT_JUDGED = "not judged"  # a heading
WORDS: Mapping[str, Word] = {  # in the order of pages
    NOT_REPRODUCED: Word("bad", "#C51B7D", "X"),
    SMALLER: Word("less", "#2166AC", "<"),
    LARGER: Word("more", "#7A4FA3", ">"),
    OPEN: Word("open", "#8A5A00", "D"),
    SAME_DIRECTION: Word("partly", "#00736B", "^"),
    REPRODUCED: Word("good", "#1B7837", "o"),
    NOT_JUDGED: Word("none", "#6B6B6B", "s"),
    BY_CONSTRUCTION: Word("none", "#4D4D4D", "p"),
    CONSISTENT: Word("none", "#4D4D4D", "h"),
    OUT_OF_SCOPE: Word("none", heading=NOT_JUDGED),
    NOT_TESTABLE: Word("none", heading=NOT_JUDGED),
    NOT_RUN: Word("none", heading=NOT_JUDGED),
}
HEADINGS = tuple(word for word, shown in WORDS.items() if not shown.heading)
OFF = (SMALLER, LARGER, NOT_REPRODUCED)  # words that say by how much
GIVEN = (BY_CONSTRUCTION, CONSISTENT)  # the inputs decide, not the runs
UNJUDGED = (*GIVEN, *(word for word, shown in WORDS.items() if shown.heading == NOT_JUDGED))

# Fixed on 2026-11-26, before the first draws.
MOST = 0.9  # a word needs at least this share; *not reproduced* is used up to 1 - MOST
CONFIDENCE_Z = 1.2816  # one-sided 90 % limit of the share, by Wilson's score interval
WITHIN_90 = (0.05, 0.95)  # quantiles that enclose 90 % of a sample


@dataclass(frozen=True)
class Share:
    """In how many cases a claim holds. drawn: the cases are draws from all possible inputs; else they are all there are
    and have to agree."""

    hits: int
    total: int
    drawn: bool

    @property
    def most(self) -> bool:
        """Whether the claim holds for at least 90 % of the inputs."""
        return self.at_least(MOST) if self.drawn else self.hits == self.total

    @property
    def few(self) -> bool:
        """Whether the claim holds for at most 10 % of the inputs."""
        return self._end(1) <= 1 - MOST if self.drawn else self.hits == 0

    def at_least(self, share: float) -> bool:
        """Whether Wilson's interval of a drawn share lies above another share."""
        return self._end(-1) >= share

    @property
    def undecided(self) -> bool:
        """Whether more draws may bring a word: Wilson's interval contains 90 % or 10 %."""
        return self.may_be(MOST) or self.may_be(1 - MOST)

    def may_be(self, share: float) -> bool:
        """Whether Wilson's interval of a drawn share contains another share."""
        return self._end(-1) < share < self._end(1)

    def _end(self, sign: int) -> float:
        return wilson_bound(self.hits / self.total, self.total, sign * CONFIDENCE_Z)

    @property
    def text(self) -> str:
        """`60 of 64`"""
        return f"{self.hits} of {self.total}"


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


def range_within_90(values: Sequence[float]) -> tuple[float, float]:
    """The values that enclose 90 % of a sample."""
    ordered = sorted(values)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in WITHIN_90)
    return low, high


@dataclass(frozen=True)
class Interval:
    """A point, and the range around it that holds 90 % of the draws, or all seeds and repetitions.

    The point is the number as configured, or the median draw (`median`) where that is not within the range.
    """

    low: float
    point: float
    high: float
    median: bool = False

    @classmethod
    def of(cls, point: float, sample: Sample) -> Interval:
        """The range of a sample."""
        known = [value for value in sample.values if not math.isnan(value)] or [point]
        low, high = range_within_90(known) if sample.drawn else (min(known), max(known))
        if sample.drawn and not low <= point <= high:
            middle = median_low(known)  # the number of a draw: the mean of the middle two may be none's
            return replace(cls(low, middle, high).around(middle), median=not math.isclose(middle, point))
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

    def implies(self, low: float | None, high: float | None) -> bool:
        """Whether every value of the claimed effect lies within these ends: they are then no claim of a size."""
        least, most = self.band
        if self.side == "above":
            return high is None and (low is None or low <= most)
        return low is None and (high is None or high >= least)


@dataclass(frozen=True)
class AtBaseline:
    """Our baseline over the paper's printed one; reproduced: enough draws come out as printed."""

    factor: float
    reproduced: bool


@dataclass(frozen=True)
class Verdict:
    """A word and the shares behind it. size: the share within the range that the paper prints for an effect.

    reason: why there is no verdict, or no reliable one. factor: our number over the middle of the paper's range, for
    words that say by how much ours is off; of_bound: over its one end, which is ours where the paper prints words.
    turns_at: where what is undecided holds (`decides.turning_value`).
    """

    answer: str
    share: Share | None = None
    size: Share | None = None
    reason: str = ""
    factor: float | None = None
    of_bound: bool = False
    baseline: AtBaseline | None = None
    turns_at: str = ""

    @property
    def judged(self) -> bool:
        return self.answer not in UNJUDGED

    @property
    def decided(self) -> bool:
        return self.judged and self.answer != OPEN

    def implied(self, by: str) -> Verdict:
        """The verdict where an input was taken from the paper's own numbers: what agrees is consistent with it."""
        agrees = self.answer in (REPRODUCED, SAME_DIRECTION)
        return replace(self, answer=CONSISTENT, reason=by) if by and agrees else self

    @property
    def as_printed(self) -> bool:
        """Whether the claim holds as printed."""
        return self.answer == REPRODUCED

    @property
    def words(self) -> str:
        """`smaller: 0.44 of the paper's, at another baseline (11 times the paper's)`"""
        return self._words(", at another baseline ({})")

    @property
    def label(self) -> str:
        """`smaller: 0.44 of the paper's, our baseline 11 times the paper's`: the words in short."""
        return self._words(", our baseline {}")

    def _words(self, baseline: str) -> str:
        off = self.answer in OFF and self.factor is not None and format_number(self.factor, 2) != "1.0"
        by = f": {factor_text(self.factor, self.of_bound)}" if off and self.factor is not None else ""
        if self.judged and self.baseline and not self.baseline.reproduced:
            by += baseline.format(factor_text(self.baseline.factor))
        return self.answer + by

    @property
    def text(self) -> str:
        """`smaller: 0.44 of the paper's (size in 20 of 64 draws)`: the words, and the share that decides the word."""
        share = self._deciding_share
        if self.answer == OPEN and not share and not self.reason:
            share = "seeds or repetitions disagree"
        text = " ".join([self.words, *(f"({part})" for part in (share, self.reason) if part)])
        what = {OPEN: "the effect" if self.size else "it", SAME_DIRECTION: "the size"}.get(self.answer)
        return f"{text}; {what} holds {self.turns_at}" if what and self.turns_at else text

    @property
    def _deciding_share(self) -> str:
        """`effect in 50 of 64 draws`: the effect's where it is undecided or lacking, else the size's; "" if undrawn."""
        if self.share is None or not self.share.drawn:
            return ""
        if self.size is None:
            return f"{self.share.text} draws"
        by_effect = self.answer in (OPEN, NOT_REPRODUCED)
        return f"effect in {self.share.text} draws" if by_effect else f"size in {self.size.text} draws"


def factor_text(factor: float, of_bound: bool = False) -> str:
    """`0.44 of the paper's`, `2.7 times the bound`"""
    over = "the bound" if of_bound else "the paper's"
    return f"{format_number(factor, 2)} {'of' if factor < 1 else 'times'} {over}"


def verdict_of(sample: Sample, low: float | None, high: float | None, effect: Effect | None = None) -> Verdict:
    """The verdict on a value, a bound (one end is None) or an effect.

    low, high: the paper's range, widened by the tolerance. An effect that implies them has a direction alone.
    """
    sized = sample.share(in_range(low, high))
    if effect is None:
        return Verdict(share_word(sized), sized)
    direction = sample.share(effect.holds)
    if effect.implies(low, high):
        return Verdict(share_word(direction), direction)
    if direction.few:
        return Verdict(NOT_REPRODUCED, direction, sized)
    if sized.most:
        return Verdict(REPRODUCED, direction, sized)
    if not direction.most:
        return Verdict(OPEN, direction, sized)
    below = sample.share(lambda value: low is not None and value < low)
    above = sample.share(lambda value: high is not None and value > high)
    return Verdict(SMALLER if below.most else LARGER if above.most else SAME_DIRECTION, direction, sized)


def in_range(low: float | None, high: float | None) -> Callable[[float], bool]:
    """Whether a number lies within a range, of which an end may be open; NaN does not."""
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    return lambda value: least <= value <= most


def question_left(
    sample: Sample, low: float | None, high: float | None, effect: Effect | None = None
) -> Callable[[float], bool] | None:
    """What the draws leave open: whether a number is an effect, else whether it has the size; None if nothing is."""
    answer = verdict_of(sample, low, high, effect).answer
    if answer == OPEN and effect is not None:
        return effect.holds
    return in_range(low, high) if answer in (OPEN, SAME_DIRECTION) else None


def share_word(share: Share) -> str:
    """The word for a claim that has one share."""
    return REPRODUCED if share.most else NOT_REPRODUCED if share.few else OPEN
