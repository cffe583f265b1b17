"""A claim's number from a table of steps, with all that makes it uncertain, and what follows for the claim.

The table has a row a variant, kind, input and seed. `kind`: how the number came to be (DESIGN section 2). `input`:
which assumed input is not at its best guess but at an end, `base` where none is. A column `X` may have `X_low` and
`X_high` beside it: between which values repetitions of one run lay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from repro.common.errors import InputError, unknown
from repro.reporting.claims import Claim, Value
from repro.reporting.filters import Filter, chosen
from repro.reporting.interval import Interval
from repro.reporting.verdict import Verdict, direction, of_effect, of_value

if TYPE_CHECKING:
    import pandas as pd

BASE = "base"


@dataclass(frozen=True)
class Error:
    """By which share a ratio of this kind may be off, and how that is known."""

    share: float
    source: str


@dataclass(frozen=True)
class Judged:
    """A claim beside one kind of number: ours, the verdict, and what the number becomes at the ends of each input."""

    claim: Claim
    kind: str
    ours: Interval
    verdict: Verdict
    ends: Mapping[str, float] = field(default_factory=dict)

    @property
    def flips(self) -> list[str]:
        """The ends of inputs at which the claim's direction is another, all else as guessed."""
        effect = self.claim.claimed
        if effect is None:
            return []
        here = direction(Interval.exact(self.ours.point), effect)
        return [end for end, value in self.ends.items() if direction(Interval.exact(value), effect) != here]


def judge(claim: Claim, steps: pd.DataFrame, kind: str, errors: Mapping[str, Error], inputs_of: str) -> Judged | None:
    """The claim judged by one kind of number, None where there is none.

    errors: kind -> by how much its ratios may be off. inputs_of: the kind that was repeated at the ends of the inputs;
    another kind, which shares them, is taken to change by the same factor.
    """
    assert claim.value is not None
    mine, repeated = steps[steps["kind"] == kind], steps[steps["kind"] == inputs_of]
    point = number(claim.value, mine[mine["input"] == BASE])
    if point is None:
        return None
    guessed = number(claim.value, repeated[repeated["input"] == BASE])
    ends = {}
    for end in sorted(set(repeated["input"]) - {BASE}):
        value = number(claim.value, repeated[repeated["input"] == end])
        if value is not None and guessed and end.rpartition(", ")[0] in claim.inputs:
            ends[end] = point * value / guessed
    if missing := [name for name in claim.inputs if not any(end.startswith(f"{name}, ") for end in ends)]:
        raise InputError(f"claim {claim.id}: no run at the ends of input '{missing[0]}'")
    ours = Interval.exact(point).and_these(repetitions(claim.value, mine[mine["input"] == BASE]))
    ours = ours.and_these(ends.values()).off_by(errors[kind].share if kind in errors else 0.0)
    if claim.value.verb == "reduction":
        ours = Interval(*(reduction(ratio) for ratio in (ours.low, ours.point, ours.high)))
        ends = {end: reduction(ratio) for end, ratio in ends.items()}
    return Judged(claim, kind, ours, verdict(claim, ours), ends)


def reduction(ratio: float) -> float:
    """The share that is saved where over's number is so many times of's: what makes a ratio uncertain makes it so."""
    return 1 - 1 / ratio


def verdict(claim: Claim, ours: Interval) -> Verdict:
    """What the interval says of the claim."""
    low, high = claim.widened
    if (effect := claim.claimed) and low is not None and high is not None:
        return of_effect(ours, effect, low, high)
    return of_value(ours, low, high)


def number(value: Value, rows: pd.DataFrame, suffixes: tuple[str, str] = ("", "")) -> float | None:
    """The claim's number, of a reduction its ratio; None without rows. suffixes: of the columns of `of` and `over`."""
    first = taken(value, rows, value.of, suffixes[0])
    second = taken(value, rows, value.over, suffixes[1]) if value.over else 1.0
    if first is None or second is None:
        return None
    return second / first if value.over else first


def taken(value: Value, rows: pd.DataFrame, of: Filter, suffix: str) -> float | None:
    """One number of the rows that a filter chooses: the median over seeds of each variant, then `take` of these."""
    column, mine = value.column + suffix, chosen(rows, of)
    if column not in rows:
        raise unknown("column", column, rows.columns)
    return None if mine.empty else float(mine.groupby("variant")[column].median().agg(value.take))


def repetitions(value: Value, rows: pd.DataFrame) -> list[float]:
    """The least and the most that the number can be, where the repetitions of a run say between which it was."""
    if f"{value.column}_low" not in rows or rows[f"{value.column}_low"].isna().any():
        return []
    found = [number(value, rows, ends) for ends in (("_low", "_high"), ("_high", "_low"))]
    return [each for each in found if each is not None]


def judge_all(
    claims: Sequence[Claim], steps: pd.DataFrame, kinds: Sequence[str], errors: Mapping[str, Error], inputs_of: str
) -> dict[str, list[Judged]]:
    """claim -> one for each kind of number that there is."""
    return {
        claim.id: [judged for kind in kinds if claim.value and (judged := judge(claim, steps, kind, errors, inputs_of))]
        for claim in claims
    }
