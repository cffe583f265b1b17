"""Compute a claim's numbers from a table of runs, and judge the claim by them and their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

from repro.answers.claims import paired
from repro.answers.claims import verdict as words
from repro.answers.claims.claims import Claim, Value
from repro.answers.claims.stats import median_known
from repro.answers.claims.verdict import AtBaseline, Effect, Interval, Sample, Share, Verdict, verdict_of
from repro.answers.tables.columns import Filter, end_of
from repro.answers.tables.runs import Runs, choose_runs
from repro.records.filters import match_rows
from repro.records.kinds import EMULATED
from repro.records.variants import VARIANT_COLUMNS

Columns = Mapping[str, Sequence[Any]]  # of a table; the numbers of a column are in one more, whose name begins with =
OTHER_END = {"": "", "low": "high", "high": "low"}  # of a column's interval (`end_of`)
ROUNDING = 1e-9
EMULATED_SEEDS = 3  # of 2026-11-27, after an audit: a verdict of one run, which no draw moved, had no interval
LEAST_REPRODUCING = 20  # draws at the paper's own baseline, or all there are, below which there is no such verdict
OUR_BASELINE = LEAST_REPRODUCING / 1024  # the share of draws at the paper's own baseline, below which ours is another
TAKES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min, "max": max, "mean": fmean, "median": median,
    "farthest": lambda values: max(values, key=lambda value: abs(value - 1)),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One number a seed, or the reason why there is none. variants: the labels of the runs that a function trained its
    number from, where it does not take all."""

    values: dict[int, float] = field(default_factory=dict)
    reason: str = ""
    variants: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConditionalVerdict:
    """The verdict over the draws at which the paper's own baseline comes out as printed.

    what: the baseline's name. draws: of it. baseline: our number for it over these. factor: that over the paper's.
    verdict: None where the claim's number is known at fewer than LEAST_REPRODUCING of the reproducing draws, and not at
    all draws.
    """

    what: str
    reproducing: int
    draws: int
    baseline: Interval | None
    factor: float | None = None
    verdict: Verdict | None = None

    @property
    def at_baseline(self) -> AtBaseline | None:
        """How far our baseline is from the paper's."""
        if self.factor is None:
            return None
        return AtBaseline(self.factor, reproduced=self.share.at_least(OUR_BASELINE))

    @property
    def share(self) -> Share:
        """The draws of the baseline at which it comes out as printed."""
        return Share(self.reproducing, self.draws, drawn=True)

    @property
    def lacks_draws(self) -> bool:
        """Whether the baseline comes out as printed, but at too few draws of the claim's number."""
        return self.verdict is None and self.share.at_least(OUR_BASELINE)

    @property
    def text(self) -> str:
        """`reproduced (40 of 41), of the 41 draws in 64 that reproduce it`"""
        if self.verdict is not None:
            return f"{self.verdict.text}, of the {self.reproducing} draws in {self.draws} that reproduce it"
        needed = f"{LEAST_REPRODUCING} are needed" + (": draw more" if self.draws < LEAST_REPRODUCING else "")
        return f"not resolved: {self.reproducing} of {self.draws} draws reproduce it, {needed}"


@dataclass(frozen=True)
class Evidence:
    """The results of one kind of number that speak to a claim.

    outcome: a number a seed, from runs as configured. sample: its values over the draws. repeated: its least and
    greatest value over repetitions of one run. by_construction, out_of_scope, busy, not_testable, not_drawn: the reason
    why the claim is not judged. implied: inputs that were taken from other claims. decided_by: the input that decides
    the number; turns_at: the input and its value at which an undecided answer turns. error: the source of the
    simulation's error. unpriced: whose arithmetic takes no time in the user's simulations. origin: where the runs are
    from.
    """

    outcome: Outcome
    sample: Sample | None = None
    conditional: ConditionalVerdict | None = None
    decided_by: str = ""
    turns_at: str = ""
    repeated: Sequence[float] = field(default_factory=list)
    error: str = ""
    unpriced: str = ""
    by_construction: str = ""
    implied: str = ""
    out_of_scope: str = ""
    busy: str = ""
    not_testable: str = ""
    not_drawn: str = ""
    origin: str = ""

    @property
    def values(self) -> list[float]:
        return [value for value in self.outcome.values.values() if not math.isnan(value)]

    @property
    def known(self) -> Sample:
        """The draws, or else all seeds and repetitions."""
        return self.sample or Sample([*self.values, *self.repeated], drawn=False)


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict of one kind of number on a claim; estimate: our number with its interval, where there is one."""

    claim: Claim
    kind: str
    verdict: Verdict
    estimate: Interval | None = None
    evidence: Evidence = Evidence(Outcome())

    @property
    def seeds(self) -> int:
        """The number of seeds behind the estimate."""
        return len(self.evidence.values) if self.estimate else 0


def judge_claim(claim: Claim, kind: str, evidence: Evidence | None, effect: Effect | None) -> ClaimVerdict:
    """Judge a claim by one kind of number; evidence: None where nothing has been run."""
    if claim.not_here is not None:
        return ClaimVerdict(claim, kind, Verdict(words.NOT_TESTABLE, reason=claim.not_here))
    if evidence is None:
        return ClaimVerdict(claim, kind, Verdict(words.NOT_RUN))
    if evidence.not_testable:
        verdict = Verdict(words.NOT_TESTABLE, reason=evidence.not_testable)
        return ClaimVerdict(claim, kind, verdict, evidence=evidence)
    if not evidence.values:
        reason = evidence.outcome.reason or f"no number follows from {_columns(claim.value)}"
        return ClaimVerdict(claim, kind, Verdict(words.NOT_RUN, reason=reason))
    if evidence.by_construction:
        verdict = Verdict(words.BY_CONSTRUCTION, reason=evidence.by_construction)
    elif reason := evidence.out_of_scope or evidence.busy:
        verdict = Verdict(words.OUT_OF_SCOPE, reason=reason)
    elif evidence.not_drawn:
        verdict = Verdict(words.NOT_RUN, reason=evidence.not_drawn)
    elif (seeds := len(evidence.values)) < (least := least_seeds(claim, kind, evidence)):
        verdict = Verdict(words.OPEN, reason=f"{seeds} seed{'s' * (seeds > 1)}, {least} needed")
    else:
        verdict = conclude_verdict(claim, evidence, effect).implied(evidence.implied)
    estimate, conditional = evidence_interval(claim, evidence), evidence.conditional
    sized = effect is None or not effect.implies(*claim.widened)  # "longer" is no number to divide by
    factor = claim.paper.factor(estimate.point) if sized and (claim.about != "accuracy" or claim.is_ratio) else None
    if factor is not None and not math.isclose(factor, estimate.point):  # over 1 it repeats our number
        verdict = replace(verdict, factor=factor, of_bound=claim.paper.is_bound)
    verdict = replace(verdict, baseline=conditional.at_baseline if conditional else None, turns_at=evidence.turns_at)
    return ClaimVerdict(claim, kind, verdict, estimate, evidence)


def least_seeds(claim: Claim, kind: str, evidence: Evidence) -> int:
    """The number of seeds that a verdict needs. Draws that move an emulated time count as its repetitions; without them
    one run has no known error."""
    if kind != EMULATED or claim.about != "time":
        return claim.seeds_for(kind)
    return 1 if evidence.sample and evidence.sample.varies else max(claim.seeds_for(kind), EMULATED_SEEDS)


def conclude_verdict(claim: Claim, evidence: Evidence, effect: Effect | None) -> Verdict:
    """The verdict from a sample; from pairs of seeds for a claim that no accuracy is lost."""
    if pairs := compare_seeds(claim, evidence):
        return Verdict(pairs.answer, reason=f"{pairs.pairs} pairs of seeds, margin {100 * pairs.margin:g} points")
    return verdict_of(evidence.known, *claim.widened, effect)


def compare_seeds(claim: Claim, evidence: Evidence) -> paired.Comparison | None:
    """The paired comparison that decides a claim that no accuracy is lost; None for other claims and for one seed."""
    low, _ = claim.widened
    if claim.no_loss and low is not None and low < 0 and len(evidence.values) > 1:
        return paired.compare_pairs(evidence.values, -low)
    return None


def evidence_interval(claim: Claim, evidence: Evidence) -> Interval:
    """The median over seeds, and the range of 90 % of the draws, or of all seeds and repetitions; for pairs of seeds
    their mean difference with its limits.

    What an input fixes is the number as configured, wherever the draws of the other inputs lie.
    """
    if (pairs := compare_seeds(claim, evidence)) and math.isfinite(pairs.low):
        return Interval(pairs.low, pairs.mean, pairs.high)
    middle = median(evidence.values)
    interval = Interval.of(middle, evidence.known)
    return interval.around(middle) if evidence.by_construction else interval


def compute_numbers(value: Value, runs: Runs, ends: tuple[str, str] = ("", "")) -> Outcome:
    """The number of a verb, one for each seed that both sides have.

    ends: of the intervals of the columns for `of` and `over`, by `OTHER_END`.
    """
    rows = range(len(runs.numbers_of(value.table)))
    names = {"seed", "breakdown", *(name for name in VARIANT_COLUMNS if runs.has(value.table, name)), *value.chooses}
    names |= {
        f"={end_of(column or '', end)}" for column, _ in value.sides for end in (OTHER_END if any(ends) else ("",))
    }
    columns = {name: runs.listed(value.table, name) for name in sorted(names) if rows}  # none of another program
    return _numbers(value, columns, rows, ends)


def _numbers(value: Value, table: Columns, rows: Sequence[int], ends: tuple[str, str]) -> Outcome:
    """`compute_numbers` of some rows."""
    if value.each:
        return _of_each(value, table, rows, ends)
    chosen = _side(value, value.of, table, rows, ends[0])
    if not chosen.values or value.verb == "value":
        return chosen
    if value.verb == "best":
        known = {seed: number for seed, number in chosen.values.items() if not math.isnan(number)} or chosen.values
        seed = max(known, key=known.__getitem__)
        return Outcome({seed: known[seed]})
    assert value.over is not None
    if value.verb == "outside":
        return _outside(value, chosen, table, rows, ends[1])
    over = _side(value, value.over, table, rows, ends[1])
    if not over.values:
        return over
    if not (seeds := sorted({*chosen.values} & {*over.values})):
        return Outcome(reason=f"no seed in common between {_shown(value.of)} and {_shown(value.over)}")
    return Outcome({seed: _number(value.verb or "", chosen.values[seed], over.values[seed]) for seed in seeds})


def _side(value: Value, side: Value | Filter, table: Columns, rows: Sequence[int], end: str) -> Outcome:
    """The numbers of one side: of a verb, or of the rows that a filter chooses."""
    if isinstance(side, Value):
        return _numbers(side, table, rows, (end, OTHER_END[end]))
    values = _of_variant(
        f"={end_of(value.column or '', end)}", value, table, match_rows(table, side, rows) if rows else []
    )
    return Outcome(values) if values else Outcome(reason=f"no results for {_shown(side)}")


def _outside(value: Value, outcome: Outcome, table: Columns, rows: Sequence[int], end: str) -> Outcome:
    """How far each seed's number lies outside the range of the variants that `over` lists."""
    assert isinstance(value.over, dict)
    variants = value.over["variant"]
    ends = [_side(value, value.over | {"variant": name}, table, rows, end) for name in variants]  # type: ignore
    if lacking := next((end for end in ends if not end.values), None):
        return lacking
    if not (seeds := sorted({*outcome.values}.intersection(*(end.values for end in ends)))):
        return Outcome(reason=f"no seed in common between {_shown(value.of)} and {_shown(value.over)}")
    ranges = {seed: [end.values[seed] for end in ends] for seed in seeds}
    return Outcome({s: max(0.0, min(ranges[s]) - outcome.values[s], outcome.values[s] - max(ranges[s])) for s in seeds})


def _of_each(value: Value, table: Columns, rows: Sequence[int], ends: tuple[str, str]) -> Outcome:
    """The number for each value of the columns `each`, and of these numbers the one that `take` chooses."""
    (_, where), alone = value.sides[0], value.model_copy(update={"each": []})
    read = match_rows(table, where, rows) if rows else []
    keys = dict.fromkeys(tuple(table[name][row] for name in value.each) for row in read)
    required = [each for name in value.each if isinstance(listed := where.get(name), list) for each in listed]
    if lacking := [each for each in required if not any(each in key for key in keys)]:
        return Outcome(reason=f"no results for {lacking[0]}")
    of_keys = (match_rows(table, dict(zip(value.each, key, strict=True)), rows) for key in keys)
    outcomes = [_numbers(alone, table, of_key, ends) for of_key in of_keys]
    values = [outcome.values for outcome in outcomes if outcome.values]
    if not values or (required and len(values) < len(keys)):
        return next((each for each in outcomes if not each.values), Outcome(reason=f"no results for {_shown(where)}"))
    known = {seed: [each[seed] for each in values if not math.isnan(each[seed])]
             for seed in sorted(set.intersection(*map(set, values)))}  # fmt: skip
    return Outcome({seed: TAKES[value.take](numbers) for seed, numbers in known.items() if numbers})


def _number(verb: str, of: float, over: float) -> float:
    if verb == "difference":
        return of - over
    if verb == "reduction":
        return 1 - safe_ratio(of, over)
    if verb == "gain":
        return safe_ratio(of, over) - 1
    if verb == "at_least":
        return float(of >= over * (1 - ROUNDING))
    return safe_ratio(over, of) if verb == "speedup" else safe_ratio(of, over)


def safe_ratio(above: float, below: float) -> float:
    """above / below, where either may be infinite (not reached), zero (nothing recorded) or NaN (unknown)."""
    if math.isnan(above) or math.isnan(below) or (math.isinf(above) and math.isinf(below)):
        return math.nan
    if math.isinf(below):
        return 0.0
    return above / below if below > 0 else math.inf if above > 0 else math.nan


def _of_variant(column: str, value: Value, table: Columns, rows: Sequence[int]) -> dict[int, float]:
    """seed -> number of a column; of several variants the one that `take` chooses."""
    variants: dict[tuple[Any, ...], dict[bool, dict[int, list[float]]]] = {}
    for row in rows:
        variant = tuple(table[name][row] for name in VARIANT_COLUMNS if name in table)
        runs = variants.setdefault(variant, {True: {}, False: {}})
        runs[table["breakdown"][row] is True].setdefault(table["seed"][row], []).append(table[column][row])
    counted = [choose_runs(runs, value.phases) for runs in variants.values()]
    medians = [{seed: median_known(numbers) for seed, numbers in sorted(seeds.items())} for seeds in counted if seeds]
    best = max if value.take == "max" else min
    return best(medians, key=lambda seeds: median_known(seeds.values()), default={})


def _columns(value: Value | None) -> str:
    return ", ".join(dict.fromkeys(column for column, _ in value.sides if column)) if value else "what was recorded"


def _shown(side: Value | Filter) -> str:
    if isinstance(side, Value):
        return " and ".join(_shown(each) for _, each in side.sides)
    return ", ".join(
        ", ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted) for wanted in side.values()
    )
