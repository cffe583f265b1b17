"""Collect the evidence for each claim: the runs that speak to it, the numbers from them and their uncertainty."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from repro.answers.claims import claims, drawn, evaluate, residuals
from repro.answers.claims.claims import Claim, File, Restated
from repro.answers.claims.compute import FUNCTIONS, LARGEST, PROBE_OF
from repro.answers.claims.drawn import Sweeps
from repro.answers.claims.evaluate import (
    EMULATED_SEEDS,
    LEAST_REPRODUCING,
    ClaimVerdict,
    ConditionalVerdict,
    Evidence,
    Outcome,
)
from repro.answers.claims.residuals import Residuals, Twins
from repro.answers.claims.stats import median_or_none
from repro.answers.claims.undecided import (
    NO_DRAWS,
    busy_machine,
    not_all_drawn,
    not_testable,
    nothing_drawn,
    reason_without_draws,
    shared_cores,
)
from repro.answers.claims.verdict import Interval, Sample, in_range, question_left, verdict_of
from repro.answers.tables import columns
from repro.answers.tables.runs import Runs
from repro.core import config_folders
from repro.core.choices import QUICK
from repro.core.errors import InputError, some_of, unknown_name
from repro.core.not_none import not_none
from repro.core.registry import TRAIN
from repro.records import catalogue
from repro.records.kinds import EMULATED, KINDS, SIMULATED
from repro.records.record import Found
from repro.records.run_columns import RECORDED
from repro.records.variants import WORKSPACE

Finder = Callable[[str, str], Runs | None]  # (experiment, kind) -> the runs that speak to its claims


def claims_path(paper: str, folder: Path | None = None) -> Path:
    """The claims file of a paper, which may lack it; folder: with a folder a page, in the place of `reports/`."""
    return (folder / paper if folder else config_folders.report_folder(paper)) / "claims.yaml"


def claims_of(paper: str, folder: Path | None = None) -> File:
    """Read `reports/<paper>/claims.yaml`; InputError for a claim with an unknown function or wrong arguments for it."""
    path = claims_path(paper, folder)
    file = claims.read_claims(path)
    for module in sorted(path.parent.glob("derived*.py")):
        config_folders.report_module(paper, module.stem)  # registers the paper's own functions
    for claim in file.claims:
        if claim.value is None or (name := claim.value.function) is None:
            continue
        if name not in FUNCTIONS:
            raise InputError(f"{path}: {unknown_name(f'function of claim {claim.id}', name, FUNCTIONS)}")
        try:
            inspect.signature(FUNCTIONS[name]).bind(None, **claim.value.arguments)
        except TypeError as error:
            raise InputError(f"{path}: claim {claim.id}: {name}: {error}") from None
    return file


@dataclass(frozen=True)
class ClaimEvaluator:
    """Judges a paper's claims by its results. drawn: experiment -> the sweeps of its runs, None without any; argument:
    claim -> the argument of `repro run` that makes its runs; beside: finds the emulated runs and their simulations
    that tell how far simulated times are off, None: those of `find`."""

    file: File
    find: Finder
    results: Path | None = None
    drawn: Callable[[str], Sweeps | None] = lambda _: None
    argument: Callable[[Claim], str] = lambda claim: claim.experiment
    beside: Finder | None = None
    _made: dict[tuple[Sweeps | Runs, str], Runs] = field(default_factory=dict)
    _beside: dict[str, Mapping[int, Runs]] = field(default_factory=dict)
    _errors: dict[tuple[frozenset[str], float], Residuals | None] = field(default_factory=dict)

    def verdicts(
        self, claims: Iterable[Claim], evidence: Callable[[Claim, str], Evidence | None] | None = None
    ) -> list[ClaimVerdict]:
        """One a claim and kind of number, in this order. evidence: by default of `evidence`."""
        evidence, verdicts = evidence or self.evidence, []
        for claim in claims:
            try:
                of_kinds = {kind: evidence(claim, kind) for kind in KINDS}
            except InputError as error:
                raise InputError(f"claim {claim.id}: {error}") from None
            verdicts += [
                evaluate.judge_claim(claim, kind, each, self.file.effect(claim)) for kind, each in of_kinds.items()
            ]
        return verdicts

    def evidence(self, claim: Claim, kind: str) -> Evidence | None:
        """The evidence from one kind of number; None without results of that kind. Where draws lack, it says which
        command makes them."""
        found = self._found(claim, kind)
        if found is None or found.not_drawn != NO_DRAWS:
            return found
        runs = not_none(self.runs_for(claim, kind)).records.values()
        scale = "" if any(run.identity.scale == QUICK for run in runs) else " --scale full"
        return replace(found, not_drawn=f"{NO_DRAWS}: repro run {self.argument(claim)}{scale} --draws 64")

    def _found(self, claim: Claim, kind: str) -> Evidence | None:
        if claim.value is None:
            return None
        group, sweeps = self.runs_for(claim, kind), self.sweeps_for(claim, kind)
        if group is None:
            return None
        read = runs_read(claim, group)
        if reason := not_testable(claim, group):
            return Evidence(Outcome(), not_testable=reason, origin=runs_origin(read))
        evidence = Evidence(
            outcome_of(claim, group),
            by_construction=self.by_construction(claim, group),
            implied=self.implied(group) if claim.about == "time" else "",
            out_of_scope=shared_cores(claim, group),
            busy=busy_machine(claim, group),
            unpriced=unpriced_arithmetic(claim, read),
            origin=runs_origin(read),
        )
        if kind == SIMULATED and claim.about == "time" and not claim.whole:
            return self._simulated(claim, group, evidence, sweeps)
        evidence = replace(evidence, repeated=repetition_ends(claim, group))
        if kind == EMULATED and claim.about == "time":
            return (
                self._emulated(claim, evidence, sweeps)
                if sweeps
                else replace(evidence, not_drawn=reason_without_draws(group))
            )
        if kind == SIMULATED and claim.about == "accuracy":
            return replace(evidence, sample=self._times_beside(claim, group))
        return evidence

    def _times_beside(self, claim: Claim, group: Runs) -> Sample | None:
        """The sample of a function of trainings and of the times of runs beside them (`Experiment.beside`): at a draw
        of those times one seed of the trainings, which take turns. None for a number that these times do not move."""
        sweeps = self.drawn(claim.experiment)
        if claim.value is None or claim.value.function is None or sweeps is None:
            return None
        if claim.experiment not in self._beside:
            at_draws = self.runs_at_draws(sweeps, self.errors_for(group))
            self._beside[claim.experiment] = drawn.runs_beside(group, at_draws, claim.experiment)
        outcomes = {n: outcome_of(claim, runs).values for n, runs in self._beside[claim.experiment].items()}
        values = {n: [*of_seeds.values()] for n, of_seeds in outcomes.items() if of_seeds}  # else a side lacks the draw
        if not any(Sample(each, drawn=True).varies for each in zip(*values.values(), strict=False)):
            return None
        return sample_of({n: of_seeds[n % len(of_seeds)] for n, of_seeds in values.items()})

    def runs_for(self, claim: Claim, kind: str) -> Runs | None:
        """The runs of a kind that speak to a claim; for simulated times without any the sweeps' as configured."""
        group = self.find(claim.experiment, kind)
        if kind != SIMULATED:
            return group
        if group is None:
            return sweeps.configured if (sweeps := self.sweeps_for(claim, kind)) else None
        if claim.about == "accuracy" and claim.value and claim.value.function:  # it may read times too
            return self._with_configured(claim.experiment, group)
        return group

    def _with_configured(self, experiment: str, group: Runs) -> Runs:
        """The runs of an experiment, with the sweeps' as configured of variants that have no runs."""
        if (sweeps := self.drawn(experiment)) is None:
            return group
        there = {(run.identity.experiment, run.label) for run in group.records.values()}
        configured = sweeps.configured
        lacking = [n for n, run in configured.records.items() if (run.identity.experiment, run.label) not in there]
        return group.joined(configured.only(lacking)) if lacking else group

    def sweeps_for(self, claim: Claim, kind: str) -> Sweeps | None:
        """The sweeps that speak to a claim: inputs are drawn for times alone."""
        drawn_for = claim.about == "time" and not claim.whole
        return self.drawn(claim.experiment) if drawn_for and kind in (SIMULATED, EMULATED) else None

    def _simulated(self, claim: Claim, group: Runs, evidence: Evidence, sweeps: Sweeps | None) -> Evidence:
        """A simulated time, or a number from times: over the draws of assumed inputs and the simulation's error.

        The error is a part of the difference to the emulated twin of the runs, where there is one, and the validation's
        error for their family, unless the twin has enough seeds.
        """
        errors = self.errors_for(group)
        if sweeps is None:
            if not evidence.outcome.values or errors is None or reason_without_draws(group):
                return replace(evidence, not_drawn=reason_without_draws(group))
            values = outcome_of(claim, self.runs_at_draws(group, errors)).values
            return replace(evidence, sample=sample_of(values), error=errors.source)
        configured, twin = outcome_of(claim, sweeps.configured), self._twin(claim, sweeps)
        if len(twin) >= EMULATED_SEEDS:
            errors = None
        values = self._drawn_values(claim, sweeps, errors)
        if reason := nothing_drawn(claim, configured.values, values) or not_all_drawn(claim, group, sweeps):
            return replace(evidence, not_drawn=reason if evidence.outcome.values else "")
        sources = [*(["the emulated runs of the same variants"] if twin else []), *([errors.source] if errors else [])]
        point = evidence.outcome if evidence.outcome.values else configured
        over_draws = self._over_draws(claim, evidence, drawn.towards(values, twin), sweeps, errors)
        return replace(over_draws, outcome=point, error=" and ".join(sources))

    def _emulated(self, claim: Claim, evidence: Evidence, sweeps: Sweeps) -> Evidence:
        """An emulated number over the draws: the simulation's, times emulated over simulated of a seed.

        Too few seeds are no sample of that ratio, which other inputs may change too: a draw then takes none to twice of
        it, beside the simulation's error. A number that no draw moves has its seeds alone.
        """
        configured, values = outcome_of(claim, sweeps.configured).values, self._drawn_values(claim, sweeps, None)
        simulated, twin = self._find_beside(claim.experiment, SIMULATED), self._twin(claim, sweeps)
        if reason := nothing_drawn(claim, configured, values) or not_all_drawn(claim, simulated, sweeps):
            return replace(evidence, not_drawn=reason)
        if not twin:
            return replace(evidence, not_drawn=NO_DRAWS)
        if not sample_of(values).varies:
            return evidence
        if len(twin) >= EMULATED_SEEDS:
            seeds = {n: value * twin[n % len(twin)] for n, value in values.items()}  # they take turns
            return self._over_draws(claim, evidence, seeds, sweeps, None)
        errors = self.errors_for(simulated or sweeps.configured)
        values = drawn.towards(self._drawn_values(claim, sweeps, errors), twin, most=2.0)
        return self._over_draws(claim, evidence, values, sweeps, errors)

    def _drawn_values(self, claim: Claim, sweeps: Sweeps, errors: Residuals | None) -> dict[int, float]:
        """draw -> our number. A function sees whatever runs there are, so it counts at the draws that all runs have."""
        values = outcome_of(claim, self.runs_at_draws(sweeps, errors)).values
        whole = claim.value is None or claim.value.function is None
        return values if whole else {n: value for n, value in values.items() if n < sweeps.common}

    def _over_draws(
        self, claim: Claim, evidence: Evidence, values: Mapping[int, float], sweeps: Sweeps, errors: Residuals | None
    ) -> Evidence:
        """The evidence from a number a draw, with the conditional verdict and the inputs that decide."""
        largest = LARGEST.get(claim.value.function or "", math.inf) if claim.value else math.inf
        values = {n: min(value, largest) for n, value in values.items()}
        sample = sample_of(values)
        question = question_left(sample, *claim.widened, self.file.effect(claim))
        return replace(
            evidence,
            sample=sample,
            conditional=self._conditional(claim, sweeps, errors, values),
            decided_by=sweeps.decided_by(values),
            turns_at=sweeps.turns_at({n: question(value) for n, value in values.items()}) if question else "",
        )

    def _twin(self, claim: Claim, sweeps: Sweeps) -> list[float]:
        """The emulated number over the simulated one, a ratio a seed; none without both."""
        simulated = median_or_none(outcome_of(claim, sweeps.configured).values.values())
        if not simulated or (group := self._find_beside(claim.experiment, EMULATED)) is None:
            return []
        ratios = sorted(value / simulated for value in outcome_of(claim, group).values.values())
        return ratios if all(0 < ratio < math.inf for ratio in ratios) else []

    def _conditional(
        self, claim: Claim, sweeps: Sweeps, errors: Residuals | None, values: Mapping[int, float]
    ) -> ConditionalVerdict | None:
        """The verdict over the draws at which the paper's own baseline comes out as printed."""
        if (printed := claim.given) is None:
            return None
        of_baseline = claim.model_copy(update={"value": printed.value})
        baseline = outcome_of(of_baseline, self.runs_at_draws(sweeps, errors)).values
        as_printed = in_range(*printed.tolerance.around(printed.paper))
        reproducing = [n for n, value in baseline.items() if as_printed(value)]
        point = median_or_none(outcome_of(of_baseline, sweeps.configured).values.values())
        interval = None if point is None else Interval.of(point, sample_of(baseline))
        factor = printed.factor(interval.point) if interval else None
        known = {n: values[n] for n in reproducing if n in values}
        verdict = None
        if known and (len(known) >= LEAST_REPRODUCING or len(known) == len(baseline)):
            verdict = verdict_of(sample_of(known), *claim.widened, self.file.effect(claim))
        return ConditionalVerdict(printed.what, len(reproducing), len(baseline), interval, factor, verdict)

    def runs_at_draws(self, runs: Sweeps | Runs, errors: Residuals | None) -> Runs:
        """The runs of all draws of sweeps, or of draws of the simulation's error alone; computed once."""
        key = runs, errors.source if errors else ""
        if key not in self._made:
            drawn_runs = runs.runs(errors) if isinstance(runs, Sweeps) else runs
            self._made[key] = drawn.erring(runs, errors) if isinstance(runs, Runs) and errors else drawn_runs
        return self._made[key]

    def errors_for(self, group: Runs) -> Residuals | None:
        """The errors that simulated times of these runs may have."""
        family = frozenset(run.identity.strategy.name for run in group.records.values())
        key = family, 4.0 * max((run.parameters or 0 for run in group.records.values()), default=0)
        if key not in self._errors:
            self._errors[key] = residuals.residuals_for(validation_steps(self.results), *key, self._twins)
        return self._errors[key]

    @cached_property
    def _twins(self) -> dict[str, Twins]:
        """The paper's experiments that were also emulated."""
        names = dict.fromkeys(claim.experiment for claim in self.file.claims)
        find = self._find_beside
        return residuals.twins_of_pairs((find(name, EMULATED), find(name, SIMULATED)) for name in names)

    @property
    def _find_beside(self) -> Finder:
        return self.beside or self.find

    def by_construction(self, claim: Claim, group: Runs) -> str:
        """The testbed entry that fixes this claim's number: taken from it, or the only input of it."""
        restated = self._restated(group)
        return next((f"fixed by {each.entry} of {name}" for name, each in restated if claim.id in each.claims), "")

    def implied(self, group: Runs) -> str:
        """The entries of the runs' testbeds that were taken from claims of the paper."""
        return ", ".join(sorted({each.entry for _, each in self._restated(group) if each.implied_by}))

    def _restated(self, group: Runs) -> Iterator[tuple[str, Restated]]:
        for testbed in dict.fromkeys(run.identity.testbed.name for run in group.records.values()):
            for each in self.file.restated:
                if any(fnmatchcase(testbed, pattern) for pattern in each.testbeds):
                    yield testbed, each


def sample_of(values: Mapping[int, float]) -> Sample:
    """The sample of a number a draw; a draw without a number (NaN) counts against every claim."""
    return Sample([*values.values()], drawn=True)


def runs_origin(read: Sequence[Found]) -> str:
    """Where the runs behind a number are from, `reference / workspace`."""
    return " / ".join(sorted({run.origin for run in read}))


def unpriced_arithmetic(claim: Claim, read: Sequence[Found]) -> str:
    """`without the time of the arithmetic of Top-k`: by what the user's simulations of a time are too fast; "" if
    nothing."""
    if claim.about != "time":
        return ""
    mine = [run for run in read if run.origin == WORKSPACE and run.identity.trains]
    free = dict.fromkeys(run.label for run in mine if run.training.free_arithmetic)
    return f"without the time of the arithmetic of {some_of([*free], 2)} (repro price)" if free else ""


def runs_read(claim: Claim, group: Runs) -> list[Found]:
    """The runs behind a number; for a function all runs that it may read."""
    assert claim.value is not None
    table = claim.value.table
    if not claim.value.verb or not group.numbers_of(table):
        return [*group.records.values()]
    rows = {row for _, where in claim.value.sides for row in group.matching(table, where)}
    return group.of_rows(table, sorted(rows))


def outcome_of(claim: Claim, group: Runs) -> Outcome:
    """Our number for a claim, one a seed."""
    assert claim.value is not None
    if claim.value.function is None:
        has = partial(group.has, claim.value.table)
        needed = [name for column, _ in claim.value.sides for name in columns.find_columns(column or "", has)]
        if lacking := [name for name in needed if name.startswith(RECORDED) and not group.records_some(name)]:
            return Outcome(reason=f"no {lacking[0]} was recorded")
        return evaluate.compute_numbers(claim.value, group)
    if (wanted := PROBE_OF.get(claim.value.function, TRAIN)) != group.program:
        return Outcome(reason=f"{claim.value.function} reads results of the program {wanted}, not of {group.program}")
    return FUNCTIONS[claim.value.function](group, **claim.value.arguments)


def repetition_ends(claim: Claim, group: Runs) -> list[float]:
    """The ends of our number's interval, from recorded repetitions of a run or from the size of its test set."""
    value = claim.value
    assert value is not None
    if value.function or not all(group.records_some(columns.end_of(name or "", "low")) for name, _ in value.sides):
        return []
    sides = (("low", "high"), ("high", "low"))
    numbers = [number for ends in sides for number in evaluate.compute_numbers(value, group, ends).values.values()]
    return [number for number in numbers if not math.isnan(number)]


@cache
def validation_steps(results: Path | None) -> list[dict[str, Any]]:
    """The observed and simulated steps of the validation's runs that count for its goal."""
    return [
        {"run": run.record.name, "observed_s": step["observed_s"]["median"]}
        | {name: step[name] for name in ("strategy", "bytes", "simulated_s")}
        for run in residuals.validation_runs(catalogue.runs(residuals.VALIDATION, results))
        if run.identity.experiment not in residuals.APART
        for step in run.probe.found["rows"]
    ]
