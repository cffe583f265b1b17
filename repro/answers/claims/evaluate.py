"""A claim's numbers from a table of runs, all that makes them uncertain, and what follows for the claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from repro.answers.claims import verdict as answers
from repro.answers.claims.claims import Claim, Value
from repro.answers.claims.stats import spread
from repro.answers.claims.verdict import Effect, Interval, Verdict, direction, of_effect, of_value
from repro.answers.tables.columns import Filter, computed
from repro.core.errors import unknown

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
RUNS = ("variant", "experiment", "testbed")  # in which runs differ that are not one variant's
OTHER_END = {"": "", "_low": "_high", "_high": "_low"}  # of an interval, by what stands behind its columns
ROUNDING = 1e-9
TAKES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min, "max": max, "mean": fmean, "median": median,
    "farthest": lambda values: max(values, key=lambda value: abs(value - 1)),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One number a seed, or the reason why there is none."""

    values: dict[int, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Error:
    """By which share a number of this kind may be off, and how that is known."""

    share: float
    source: str


@dataclass(frozen=True)
class Evidence:
    """What one kind of number says of a claim.

    ends: `input, low` or `input, high` -> ours with that input there, all else as guessed. repeated: the least and most
    that repetitions of one run make of it. by_construction, out_of_scope, not_testable: why it is not judged.
    origin: where the runs are from.
    """

    outcome: Outcome
    ends: Mapping[str, float] = field(default_factory=dict)
    repeated: Sequence[float] = ()
    error: Error | None = None
    by_construction: str = ""
    implied: str = ""
    out_of_scope: str = ""
    not_testable: str = ""
    origin: str = ""

    @property
    def values(self) -> list[float]:
        return [value for value in self.outcome.values.values() if not math.isnan(value)]


@dataclass(frozen=True)
class Judged:
    """A claim beside one kind of number: the verdict, ours where there is one, over how many seeds, from where."""

    claim: Claim
    kind: str
    verdict: Verdict
    ours: Interval | None = None
    evidence: Evidence = Evidence(Outcome())
    effect: Effect | None = None

    @property
    def seeds(self) -> int:
        """Over how many ours is taken; none where there is no number."""
        return len(self.evidence.values) if self.ours else 0

    @property
    def flips(self) -> list[str]:
        """The ends of inputs at which the claim's direction is another, all else as guessed."""
        if self.effect is None or self.ours is None:
            return []
        effect, here = self.effect, direction(Interval.exact(self.ours.point), self.effect)
        return [end for end, at in self.evidence.ends.items() if direction(Interval.exact(at), effect) != here]


def judge(claim: Claim, kind: str, evidence: Evidence | None, effect: Effect | None) -> Judged:
    """The verdict of one kind of number on a claim; evidence: None where nothing has been run."""
    if claim.not_here is not None:
        return Judged(claim, kind, Verdict(answers.NOT_TESTABLE, reason=claim.not_here))
    if evidence is None:
        return Judged(claim, kind, Verdict(answers.NOT_RUN))
    if evidence.not_testable:
        return Judged(claim, kind, Verdict(answers.NOT_TESTABLE, reason=evidence.not_testable))
    if not evidence.values:
        reason = evidence.outcome.reason or f"no number follows from {_columns(claim.value)}"
        return Judged(claim, kind, Verdict(answers.NOT_RUN, reason=reason))
    ours = interval(claim, evidence, effect)
    if evidence.by_construction:
        verdict = Verdict(answers.BY_CONSTRUCTION, reason=evidence.by_construction)
    elif evidence.out_of_scope:
        verdict = Verdict(answers.OUT_OF_SCOPE, reason=evidence.out_of_scope)
    elif (seeds := len(evidence.values)) < (least := claim.seeds_for(kind)):
        verdict = Verdict(answers.INCONCLUSIVE, reason=f"{seeds} of {least} seeds")
    else:
        verdict = of_effect(ours, effect, *claim.widened) if effect else of_value(ours, *claim.widened)
        verdict = verdict.implied(evidence.implied)
    return Judged(claim, kind, verdict, ours, evidence, effect)


def interval(claim: Claim, evidence: Evidence, effect: Effect | None) -> Interval:
    """The median over seeds and all that is known to make it uncertain: seeds, repetitions, inputs, the kind's error.

    What an error of a ratio makes of an effect in percent is computed on the ratio: 1 + gain, or 1 / (1 - reduction).
    """
    found = spread(evidence.values)
    ours = Interval(found.low, found.median, found.high).and_these(evidence.repeated).and_these(evidence.ends.values())
    if evidence.error is None:
        return ours
    if claim.value is not None and claim.value.verb == "gain":
        ratio = Interval(1 + ours.low, 1 + ours.point, 1 + ours.high).off_by(evidence.error.share)
        return Interval(ratio.low - 1, ratio.point - 1, ratio.high - 1)
    if claim.paper.unit == "%" and effect is not None and ours.high < 1:
        ratio = Interval(*(1 / (1 - share) for share in (ours.low, ours.point, ours.high))).off_by(evidence.error.share)
        return Interval(*(1 - 1 / value for value in (ratio.low, ratio.point, ratio.high)))
    return ours.off_by(evidence.error.share)


def numbers(value: Value, table: pd.DataFrame, suffixes: tuple[str, str] = ("", ""), off: float = 1.0) -> Outcome:
    """The number of a verb, one a seed that both sides have.

    table: a row a run, with variant, seed, breakdown and the claim's column. suffixes: of the columns of `of` and
    `over`. off: by which factor each ratio that is counted or compared is wrong.
    """
    return _numbers(value, _read(value, table, OTHER_END if any(suffixes) else ("",)), suffixes, off)


def _read(value: Value, table: pd.DataFrame, ends: Iterable[str]) -> list[Row]:
    """What a verb reads of a table: the columns that choose rows, and the numbers of every row."""
    names = {"seed", "breakdown", *(name for name in RUNS if name in table), *value.chooses}
    if not len(table):
        return []  # none of another program, which has no such table
    if missing := sorted(names - {*table.columns}):
        raise unknown("column", missing[0], table.columns)
    found = {name: [None if value != value else value for value in table[name].tolist()] for name in names}
    for column in dict.fromkeys(f"{column}{end}" for column, _ in value.sides for end in ends):
        found[f"={column}"] = computed(table, column).tolist()
    return [dict(zip(found, row)) for row in zip(*found.values())]


def _chosen(rows: list[Row], where: Filter) -> list[Row]:
    for column, wanted in where.items():
        rows = [row for row in rows if row[column] in (wanted if isinstance(wanted, list) else [wanted])]
    return rows


def _numbers(value: Value, rows: list[Row], suffixes: tuple[str, str], off: float) -> Outcome:
    if value.each:
        return _of_each(value, rows, suffixes, off)
    of = _side(value, value.of, rows, suffixes[0], off)
    if not of.values or value.verb == "value":
        return of
    if value.verb == "best":
        there = {seed: number for seed, number in of.values.items() if not math.isnan(number)} or of.values
        seed = max(there, key=there.__getitem__)
        return Outcome({seed: there[seed]})
    assert value.over is not None
    if value.verb == "outside":
        return _outside(value, of, rows, suffixes[1])
    other = value.model_copy(update={"column": value.over_column or value.column})
    over = _side(other, value.over, rows, suffixes[1], 1 / off)
    if not over.values:
        return over
    if not (seeds := sorted({*of.values} & {*over.values})):
        return Outcome(reason=f"no seed in common between {_shown(value.of)} and {_shown(value.over)}")
    by = 1.0 if value.compared else off
    return Outcome({seed: _number(value.verb or "", by * of.values[seed], over.values[seed]) for seed in seeds})


def _side(value: Value, side: Value | Filter, rows: list[Row], suffix: str, off: float) -> Outcome:
    """The numbers of `of` or of `over`."""
    if isinstance(side, Value):
        return _numbers(side, rows, (suffix, OTHER_END[suffix]), off if side in value.compared else 1.0)
    found = _taken(value, rows, side, suffix)
    return Outcome(found) if found else Outcome(reason=f"no results for {_shown(side)}")


def _outside(value: Value, of: Outcome, rows: list[Row], suffix: str) -> Outcome:
    """How far each seed's number lies outside of the range of the variants that `over` lists."""
    assert isinstance(value.over, dict)
    variants = value.over["variant"]
    ends = [_side(value, value.over | {"variant": name}, rows, suffix, 1.0) for name in variants]  # type: ignore
    if lacking := next((end for end in ends if not end.values), None):
        return lacking
    if not (seeds := sorted({*of.values}.intersection(*(end.values for end in ends)))):
        return Outcome(reason=f"no seed in common between {_shown(value.of)} and {_shown(value.over)}")
    ranges = {seed: [end.values[seed] for end in ends] for seed in seeds}
    return Outcome({s: max(0.0, min(ranges[s]) - of.values[s], of.values[s] - max(ranges[s])) for s in seeds})


def _of_each(value: Value, rows: list[Row], suffixes: tuple[str, str], off: float) -> Outcome:
    """The number apart for each value of the columns of `each`, and of these what `take` takes."""
    (_, of), alone = value.sides[0], value.model_copy(update={"each": []})
    keys = dict.fromkeys(tuple(row[name] for name in value.each) for row in _chosen(rows, of))
    asked = [each for name in value.each if isinstance(listed := of.get(name), list) for each in listed]
    if lacking := [each for each in asked if not any(each in key for key in keys)]:
        return Outcome(reason=f"no results for {lacking[0]}")
    apart = [_numbers(alone, _chosen(rows, dict(zip(value.each, key))), suffixes, off) for key in keys]
    there = [outcome.values for outcome in apart if outcome.values]
    if not there or (asked and len(there) < len(keys)):
        return next((one for one in apart if not one.values), Outcome(reason=f"no results for {_shown(of)}"))
    every = {seed: [values[seed] for values in there] for seed in sorted(set.intersection(*map(set, there)))}
    known = {seed: [number for number in numbers if not math.isnan(number)] for seed, numbers in every.items()}
    return Outcome({seed: TAKES[value.take](numbers) for seed, numbers in known.items() if numbers})


def _number(verb: str, of: float, over: float) -> float:
    if verb == "difference":
        return of - over
    if verb == "reduction":
        return 1 - ratio(of, over)
    if verb == "gain":
        return ratio(of, over) - 1
    if verb == "at_least":
        return float(of >= over * (1 - ROUNDING))
    return ratio(over, of) if verb == "speedup" else ratio(of, over)


def ratio(above: float, below: float) -> float:
    """above / below where either may be infinite (not reached) or zero (nothing recorded)."""
    if math.isnan(below) or (math.isinf(above) and math.isinf(below)):
        return math.nan
    if math.isinf(below):
        return 0.0
    return above / below if below > 0 else math.inf if above > 0 else math.nan


def _taken(value: Value, rows: list[Row], of: Filter, suffix: str = "") -> dict[int, float]:
    """seed -> its number, of the rows that a filter chooses: the variant that `take` takes of several."""
    every: dict[tuple[Any, ...], dict[bool, dict[int, list[float]]]] = {}
    for row in _chosen(rows, of):
        runs = every.setdefault(tuple(row.get(name) for name in RUNS), {True: {}, False: {}})
        runs[row["breakdown"] is True].setdefault(row["seed"], []).append(row[f"={value.column}{suffix}"])
    counted = {names: (value.phases and runs[True]) or runs[False] for names, runs in every.items()}
    found = {
        names: {seed: _median(numbers) for seed, numbers in sorted(by_seed.items())}
        for names, by_seed in counted.items()
        if by_seed
    }
    if not found:
        return {}
    best = (max if value.take == "max" else min)(found, key=lambda names: _median(found[names].values()))
    return found[best]


def _median(numbers: Iterable[float]) -> float:
    """Of what is there; NaN of nothing."""
    there = [number for number in numbers if not math.isnan(number)]
    return median(there) if there else math.nan


def _columns(value: Value | None) -> str:
    return ", ".join(dict.fromkeys(column for column, _ in value.sides if column)) if value else "what was recorded"


def _shown(of: Value | Filter) -> str:
    if isinstance(of, Value):
        return " and ".join(_shown(each) for _, each in of.sides)
    return ", ".join(", ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted) for wanted in of.values())
