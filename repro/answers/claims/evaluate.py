"""A claim's numbers from a table of runs, all that makes them uncertain, and what follows for the claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from repro.answers.claims import paired
from repro.answers.claims import verdict as answers
from repro.answers.claims.claims import Claim, Value
from repro.answers.claims.stats import spread
from repro.answers.claims.verdict import Effect, Interval, Sample, Verdict, of_effect, of_value
from repro.answers.tables.columns import Filter, Lists
from repro.records.kinds import SIMULATED

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
class Conditioned:
    """The verdict where the paper's own baseline comes out as it prints it.

    kept: draws that do so, of so many; without a verdict too few do, or none can. baseline: ours over all draws.
    """

    kept: int
    of: int
    baseline: Interval | None
    verdict: Verdict | None = None
    cannot: bool = False  # whether all of the baseline's range misses the printed number

    @property
    def text(self) -> str:
        """`confirmed (40 of 41), of 41 draws in 64`"""
        if self.verdict is not None:
            return f"{self.verdict.text}, of the {self.kept} draws in {self.of} that reproduce it"
        if self.cannot:
            return f"contradiction: none of {self.of} draws reproduces it"
        return f"not resolved: too few draws, {self.kept} of {self.of}, reproduce it"


@dataclass(frozen=True)
class Evidence:
    """What one kind of number says of a claim.

    outcome: a number a seed, of runs as they are configured. sample: those that it may be. repeated: the least and most
    that repetitions of one run make of it. by_construction, out_of_scope, not_testable: why it is not judged.
    not_drawn: what draws its inputs, where nothing has. decided_by: the input that decides it. error: where its error
    is from. origin: where the runs are from.
    """

    outcome: Outcome
    sample: Sample | None = None
    given: Conditioned | None = None
    decided_by: str = ""
    repeated: Sequence[float] = ()
    error: str = ""
    by_construction: str = ""
    implied: str = ""
    out_of_scope: str = ""
    not_testable: str = ""
    not_drawn: str = ""
    origin: str = ""

    @property
    def values(self) -> list[float]:
        return [value for value in self.outcome.values.values() if not math.isnan(value)]

    @property
    def known(self) -> Sample:
        """The sample, or all seeds and repetitions."""
        return self.sample or Sample([*self.values, *self.repeated], drawn=False)


@dataclass(frozen=True)
class Judged:
    """A claim beside one kind of number: the verdict, ours where there is one, over how many seeds, from where."""

    claim: Claim
    kind: str
    verdict: Verdict
    ours: Interval | None = None
    evidence: Evidence = Evidence(Outcome())

    @property
    def seeds(self) -> int:
        """Over how many ours is taken; none where there is no number."""
        return len(self.evidence.values) if self.ours else 0


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
    ours = interval(evidence)
    if evidence.by_construction:
        verdict = Verdict(answers.BY_CONSTRUCTION, reason=evidence.by_construction)
    elif evidence.out_of_scope:
        verdict = Verdict(answers.OUT_OF_SCOPE, reason=evidence.out_of_scope)
    elif evidence.not_drawn:
        verdict = Verdict(answers.NOT_RUN, reason=evidence.not_drawn)
    elif (seeds := len(evidence.values)) < (least := claim.seeds_for(kind)) and (
        evidence.sample is None or kind == SIMULATED  # of an emulated number draws stand for repetitions too
    ):
        verdict = Verdict(answers.OPEN, reason=f"{seeds} of {least} seeds")
    else:
        verdict = concluded(claim, evidence, effect).implied(evidence.implied)
    return Judged(claim, kind, verdict, ours, evidence)


def concluded(claim: Claim, evidence: Evidence, effect: Effect | None) -> Verdict:
    """What follows from a sample; of an accuracy that must not be lost, from pairs of seeds."""
    low, high = claim.widened
    if claim.no_loss and low is not None and low < 0 and len(evidence.values) > 1:
        found = paired.compare(evidence.values, -low)
        said = f"{found.mean:+.4f}, {found.low:+.4f} to {found.high:+.4f}; {found.pairs} pairs, margin {-low:g}"
        return Verdict(WORDS[found.answer], reason=said)
    sample = evidence.known
    return of_effect(sample, effect, low, high) if effect else of_value(sample, low, high)


WORDS = {paired.NO_LOSS: answers.CONFIRMED, paired.LOSS: answers.REFUTED, paired.OPEN: answers.OPEN}


def interval(evidence: Evidence) -> Interval:
    """The median over seeds, and between what 90 % of the draws lie, or all seeds and repetitions."""
    low, middle, high = spread(evidence.values)
    if evidence.sample is None:
        return Interval(min([low, *evidence.repeated]), middle, max([high, *evidence.repeated]))
    return Interval.of(middle, evidence.sample)


def numbers(value: Value, table: Lists, suffixes: tuple[str, str] = ("", "")) -> Outcome:
    """The number of a verb, one a seed that both sides have.

    table: a row a run, with variant, seed, breakdown and the claim's column. suffixes: of the columns of `of` and
    `over`.
    """
    return _numbers(value, _read(value, table, OTHER_END if any(suffixes) else ("",)), suffixes)


def _read(value: Value, table: Lists, ends: Iterable[str]) -> list[Row]:
    """What a verb reads of a table, of the rows that a side of it chooses: what they are chosen by, and numbers."""
    if not len(table):
        return []  # none of another program, which has no such table
    names = sorted({"seed", "breakdown", *(name for name in RUNS if name in table.table), *value.chooses})
    columns = {name: table[name] for name in names}
    for column in dict.fromkeys(f"{column}{end}" for column, _ in value.sides for end in ends):
        columns[f"={column}"] = table.computed(column)
    mine = sorted({number for _, where in value.sides for number in table.chosen(where)})
    return [{name: values[number] for name, values in columns.items()} for number in mine]


def _chosen(rows: list[Row], where: Filter) -> list[Row]:
    for column, wanted in where.items():
        rows = [row for row in rows if row[column] in (wanted if isinstance(wanted, list) else [wanted])]
    return rows


def _numbers(value: Value, rows: list[Row], suffixes: tuple[str, str]) -> Outcome:
    if value.each:
        return _of_each(value, rows, suffixes)
    of = _side(value, value.of, rows, suffixes[0])
    if not of.values or value.verb == "value":
        return of
    if value.verb == "best":
        there = {seed: number for seed, number in of.values.items() if not math.isnan(number)} or of.values
        seed = max(there, key=there.__getitem__)
        return Outcome({seed: there[seed]})
    assert value.over is not None
    if value.verb == "outside":
        return _outside(value, of, rows, suffixes[1])
    over = _side(value, value.over, rows, suffixes[1])
    if not over.values:
        return over
    if not (seeds := sorted({*of.values} & {*over.values})):
        return Outcome(reason=f"no seed in common between {_shown(value.of)} and {_shown(value.over)}")
    return Outcome({seed: _number(value.verb or "", of.values[seed], over.values[seed]) for seed in seeds})


def _side(value: Value, side: Value | Filter, rows: list[Row], suffix: str) -> Outcome:
    """The numbers of `of` or of `over`."""
    if isinstance(side, Value):
        return _numbers(side, rows, (suffix, OTHER_END[suffix]))
    found = _taken(value, rows, side, suffix)
    return Outcome(found) if found else Outcome(reason=f"no results for {_shown(side)}")


def _outside(value: Value, of: Outcome, rows: list[Row], suffix: str) -> Outcome:
    """How far each seed's number lies outside of the range of the variants that `over` lists."""
    assert isinstance(value.over, dict)
    variants = value.over["variant"]
    ends = [_side(value, value.over | {"variant": name}, rows, suffix) for name in variants]  # type: ignore
    if lacking := next((end for end in ends if not end.values), None):
        return lacking
    if not (seeds := sorted({*of.values}.intersection(*(end.values for end in ends)))):
        return Outcome(reason=f"no seed in common between {_shown(value.of)} and {_shown(value.over)}")
    ranges = {seed: [end.values[seed] for end in ends] for seed in seeds}
    return Outcome({s: max(0.0, min(ranges[s]) - of.values[s], of.values[s] - max(ranges[s])) for s in seeds})


def _of_each(value: Value, rows: list[Row], suffixes: tuple[str, str]) -> Outcome:
    """The number apart for each value of the columns of `each`, and of these what `take` takes."""
    (_, of), alone = value.sides[0], value.model_copy(update={"each": []})
    keys = dict.fromkeys(tuple(row[name] for name in value.each) for row in _chosen(rows, of))
    asked = [each for name in value.each if isinstance(listed := of.get(name), list) for each in listed]
    if lacking := [each for each in asked if not any(each in key for key in keys)]:
        return Outcome(reason=f"no results for {lacking[0]}")
    apart = [_numbers(alone, _chosen(rows, dict(zip(value.each, key))), suffixes) for key in keys]
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
    """above / below where either may be infinite (not reached), zero (nothing recorded) or NaN (not known)."""
    if math.isnan(above) or math.isnan(below) or (math.isinf(above) and math.isinf(below)):
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
