"""What the results say of each claim: the runs that speak to it, as `evaluate.Evidence`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from repro.answers.claims import claims, drawn, evaluate, residuals, twins
from repro.answers.claims.claims import Claim, File, Restated
from repro.answers.claims.compute import FUNCTIONS, OF_PROBES
from repro.answers.claims.drawn import Sweeps
from repro.answers.claims.evaluate import Conditioned, Evidence, Judged, Outcome
from repro.answers.claims.residuals import Residuals, Twins
from repro.answers.claims.stats import median
from repro.answers.claims.verdict import Interval, Sample, of_effect, of_value
from repro.answers.tables import columns, loading
from repro.answers.tables.columns import Filter
from repro.answers.tables.loading import KINDS
from repro.answers.tables.runs import RECORDED, TARGET, Runs
from repro.core import config_folders
from repro.core.errors import InputError, unknown
from repro.records import catalogue, tidy
from repro.records.kinds import EMULATED, SIMULATED

NO_DRAWS = "its inputs are not drawn: repro run with --draws 64"
NO_NUMBERS = "its inputs are drawn for times alone, and no target is reached without arithmetic"
LEAST_KEPT = 20  # draws with the paper's own baseline, below which nothing follows
Finder = Callable[[str, str], Runs | None]  # (experiment, kind) -> the results that speak to a claim


def claims_of(paper: str, folder: Path | None = None) -> File:
    """`reports/<paper>/claims.yaml`; InputError for a claim whose function is none, or has other arguments."""
    own = folder / paper if folder else config_folders.report_folder(paper)
    path = own / "claims.yaml"
    file = claims.read(path)
    for module in sorted(own.glob("derived*.py")):
        config_folders.report_module(paper, module.stem)  # with them come the paper's own functions
    for claim in file.claims:
        if claim.value is None or (name := claim.value.function) is None:
            continue
        if name not in FUNCTIONS:
            raise InputError(f"{path}: {unknown(f'function of claim {claim.id}', name, FUNCTIONS)}")
        try:
            inspect.signature(FUNCTIONS[name]).bind(None, **claim.value.arguments)
        except TypeError as error:
            raise InputError(f"{path}: claim {claim.id}: {name}: {error}") from None
    return file


@dataclass(frozen=True)
class ClaimEvaluator:
    """Judges a paper's claims by its results: which runs speak to which claim, and what makes them uncertain.

    drawn: an experiment -> the sweeps of its runs, None without any.
    """

    file: File
    find: Finder
    results: Path | None = None
    drawn: Callable[[str], Sweeps | None] = lambda _: None
    _made: dict[tuple[int, str], tuple[Sweeps | Runs, Runs]] = field(default_factory=dict)

    def judged(self) -> list[Judged]:
        """One a claim and kind, in the file's order."""
        return [
            evaluate.judge(claim, kind, self.evidence(claim, kind), self.file.effect(claim))
            for claim in self.file.claims
            for kind in KINDS
        ]

    def evidence(self, claim: Claim, kind: str) -> Evidence | None:
        """What one kind of number says; None where there are no results of it."""
        if claim.value is None:
            return None
        group = self.find(claim.experiment, kind)
        sweeps = self.drawn(claim.experiment) if claim.about == "time" and kind in (SIMULATED, EMULATED) else None
        if kind == SIMULATED and sweeps and group is None:
            group = sweeps.configured
        if group is None:
            return None
        if reason := not_testable(claim, group):
            return Evidence(Outcome(), not_testable=reason)
        found = Evidence(
            outcome_of(claim, group),
            by_construction=self.by_construction(claim, group),
            implied=self.implied(group) if claim.about == "time" else "",
            out_of_scope=shared_cores(claim, group),
            origin=origin(claim, group),
        )
        if sweeps and kind == EMULATED:
            return self.of_emulated(claim, replace(found, repeated=repetitions(claim, group)), sweeps)
        if kind == SIMULATED and claim.about == "time":
            return self.of_simulated(claim, group, found, sweeps)
        not_drawn = assumed(group) if kind == EMULATED and claim.about == "time" else ""
        return replace(found, repeated=repetitions(claim, group), not_drawn=not_drawn)

    def of_simulated(self, claim: Claim, group: Runs, found: Evidence, sweeps: Sweeps | None) -> Evidence:
        """A simulated time, or number of times: the draws of what is assumed, each with an error of the simulation.

        That is by how much the emulated twin of the runs is away, or else what the validation found of their family.
        """
        errors = self.errors(group)
        if sweeps is None:
            if not found.outcome.values or errors is None or assumed(group):
                return replace(found, not_drawn=assumed(group))
            values = outcome_of(claim, self.once(group, errors)).values
            return replace(found, sample=sampled(values.values()), error=errors.source)
        own, twin = outcome_of(claim, sweeps.configured), self.twin(claim, sweeps)
        values = self.drawn_values(claim, sweeps, None if twin else errors)
        if reason := nothing_drawn(claim, own.values, values) or undrawn(claim, group, sweeps):
            return replace(found, not_drawn=reason if found.outcome.values else "")
        if twin:
            values = drawn.towards(values, twin)
        source = "its emulated twin" if twin else errors.source if errors else ""
        point = found.outcome if found.outcome.values else own
        made = self.at_draws(claim, found, values, sweeps, None if twin else errors)
        return replace(made, outcome=point, error=source)

    def of_emulated(self, claim: Claim, found: Evidence, sweeps: Sweeps) -> Evidence:
        """An emulated number at the draws: it shares the inputs of the simulation, and is taken to change as that."""
        own = outcome_of(claim, sweeps.configured).values
        values, base, point = self.drawn_values(claim, sweeps, None), median(own.values()), median(found.values)
        if reason := nothing_drawn(claim, own, values) or undrawn(
            claim, self.find(claim.experiment, SIMULATED), sweeps
        ):
            return replace(found, not_drawn=reason)
        if not base or not point:
            return replace(found, not_drawn=NO_DRAWS)
        seeds = sorted(value / point for value in found.values)
        moved = {n: value * point / base * seeds[n % len(seeds)] for n, value in values.items()}  # the seeds in turn
        return self.at_draws(claim, found, moved, sweeps, None)

    def drawn_values(self, claim: Claim, sweeps: Sweeps, errors: Residuals | None) -> dict[int, float]:
        """Ours, a number a draw; of a function, which takes the runs that are there, at draws of all of them."""
        values = outcome_of(claim, self.once(sweeps, errors)).values
        whole = claim.value is None or claim.value.function is None
        return values if whole else {n: value for n, value in values.items() if n < sweeps.common}

    def at_draws(
        self, claim: Claim, found: Evidence, values: Mapping[int, float], sweeps: Sweeps, errors: Residuals | None
    ) -> Evidence:
        """The evidence of a number a draw: all of them, those with the paper's own baseline, and what decides."""
        given = self.given(claim, sweeps, errors, values)
        return replace(found, sample=sampled(values.values()), given=given, decided_by=sweeps.decided_by(values))

    def twin(self, claim: Claim, sweeps: Sweeps | None) -> float | None:
        """The emulated number over the simulated one, where there are both."""
        group = self.find(claim.experiment, EMULATED) if sweeps else None
        if group is None or sweeps is None:
            return None
        emulated = median(outcome_of(claim, group).values.values())
        simulated = median(outcome_of(claim, sweeps.configured).values.values())
        return emulated / simulated if emulated and simulated and emulated / simulated > 0 else None

    def given(
        self, claim: Claim, sweeps: Sweeps, errors: Residuals | None, values: Mapping[int, float]
    ) -> Conditioned | None:
        """The verdict of the draws at which the paper's own baseline comes out as it prints it."""
        if claim.given is None:
            return None
        asked = claim.given
        of_baseline = claim.model_copy(update={"value": asked.value})
        baseline = outcome_of(of_baseline, self.once(sweeps, errors)).values
        low, high = asked.tolerance.around(asked.paper)
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        there = [n for n in values if n in baseline]
        kept = {n: values[n] for n in there if least <= baseline[n] <= most}
        point = median(outcome_of(of_baseline, sweeps.configured).values.values())
        ours = None if point is None else Interval.of(point, sampled(baseline.values()))
        if len(kept) < LEAST_KEPT:
            return Conditioned(len(kept), len(there), ours, cannot=not kept and len(there) >= LEAST_KEPT)
        sample, effect = sampled(kept.values()), self.file.effect(claim)
        found = of_effect(sample, effect, *claim.widened) if effect else of_value(sample, *claim.widened)
        return Conditioned(len(kept), len(there), ours, found)

    def once(self, of: Sweeps | Runs, errors: Residuals | None) -> Runs:
        """The runs of the draws of sweeps, or of the error of runs of which nothing is assumed, made once."""
        key = id(of), errors.source if errors else ""
        if key not in self._made:
            made = of.runs(errors) if isinstance(of, Sweeps) else drawn.erring(of, errors) if errors else of
            self._made[key] = of, made  # kept with what it was made of: another may get the id of one that is gone
        return self._made[key][1]

    def errors(self, group: Runs) -> Residuals | None:
        """By how much simulated times of these runs may be off."""
        family = {run["strategy"] for run in group.records.values() if run.get("strategy")}
        sizes = ((run.get("model") or {}).get("parameters") or 0 for run in group.records.values())
        nbytes = 4 * max(sizes, default=0)
        return residuals.of(validation(self.results), family, nbytes, self._twins)

    @cached_property
    def _twins(self) -> dict[str, Twins]:
        """The experiments of the paper that were emulated too."""
        names = dict.fromkeys(claim.experiment for claim in self.file.claims)
        return twins.of((self.find(name, EMULATED), self.find(name, SIMULATED)) for name in names)

    def by_construction(self, claim: Claim, group: Runs) -> str:
        """Which input of the testbeds fixes this claim's number: it was taken from it, or decides over it alone."""
        found = (
            f"fixed by {one.entry} of {testbed}" for testbed, one in self._restated(group) if claim.id in one.claims
        )
        return next(found, "")

    def implied(self, group: Runs) -> str:
        """Which inputs of the runs' testbeds were implied by claims of the paper."""
        return ", ".join(sorted({one.entry for _, one in self._restated(group) if one.implied_by}))

    def _restated(self, group: Runs) -> Iterator[tuple[str, Restated]]:
        for testbed in dict.fromkeys(run["testbed"] for run in group.records.values()):
            for one in self.file.restated:
                if any(fnmatchcase(testbed, pattern) for pattern in one.testbeds):
                    yield testbed, one


def nothing_drawn(claim: Claim, own: Mapping[int, float], values: Mapping[int, float]) -> str:
    """Why sweeps say nothing of a claim, by its number as configured and those of the draws."""
    if own and values:
        return NO_NUMBERS if all(map(math.isnan, values.values())) else ""
    return NO_NUMBERS if of_target(claim) else NO_DRAWS  # a side was not drawn


def of_target(claim: Claim) -> bool:
    """Whether it is computed from when a target was reached."""
    return claim.value is not None and any((column or "").startswith(TARGET) for column, _ in claim.value.sides)


def undrawn(claim: Claim, simulated: Runs | None, sweeps: Sweeps) -> str:
    """Why sweeps do not do for a claim: not all of the simulated runs that its verb chooses were drawn."""
    value = claim.value
    if simulated is None or value is None or value.verb is None or value.table != "runs":
        return ""
    lacking = any(_places(simulated, of) - _places(sweeps.configured, of) for _, of in value.sides)
    return NO_DRAWS if lacking else ""


def _places(runs: Runs, of: Filter) -> set[tuple[str, ...]]:
    rows, names = runs.lists("runs"), ("experiment", "testbed", "variant", "model", "workers")
    return {tuple(str(rows[name][number]) for name in names) for number in rows.chosen(of)}


def sampled(values: Iterable[float]) -> Sample:
    """Draws, of which each that gives no number counts against every claim."""
    return Sample(list(values), drawn=True)


def assumed(group: Runs) -> str:
    """What draws the inputs of runs on testbeds of which something is assumed."""
    return NO_DRAWS if any(run.get("assumed") for run in group.records.values()) else ""


def origin(claim: Claim, group: Runs) -> str:
    """Where the runs are from that a number is made of, `reference / workspace`; of a function, all that it may see."""
    assert claim.value is not None
    rows = group.lists(claim.value.table)
    if claim.value.verb and len(rows):
        roots = {rows["root"][number] for _, of in claim.value.sides for number in rows.chosen(of)}
    else:
        roots = {*group.lists("runs")["root"]}
    return " / ".join(sorted(roots - {None}))


def outcome_of(claim: Claim, group: Runs) -> Outcome:
    """Ours, a number a seed."""
    assert claim.value is not None
    if claim.value.function is None:
        rows = group.lists(claim.value.table)
        needed = [name for column, _ in claim.value.sides for name in columns.names(column or "", rows.table)]
        if lacking := [name for name in needed if name not in group.columns and name.startswith(RECORDED)]:
            return Outcome(reason=f"no {lacking[0]} was recorded")
        return evaluate.numbers(claim.value, rows)
    if (wanted := OF_PROBES.get(claim.value.function, "train")) != group.program:
        return Outcome(reason=f"{claim.value.function} reads results of the program {wanted}, not of {group.program}")
    return FUNCTIONS[claim.value.function](group, **claim.value.arguments)


def repetitions(claim: Claim, group: Runs) -> list[float]:
    """Between what ours lies by the repetitions of one run, where the run says so, and by its test set."""
    value = claim.value
    assert value is not None
    if value.function or not all(f"{name}_low" in group.columns for name, _ in value.sides):
        return []
    sides, rows = (("_low", "_high"), ("_high", "_low")), group.lists(value.table)
    found = [number for ends in sides for number in evaluate.numbers(value, rows, ends).values.values()]
    return [number for number in found if not math.isnan(number)]


def not_testable(claim: Claim, group: Runs) -> str:
    """Why runs say nothing of a claim."""
    if claim.about == "accuracy" and group.timing_only:
        return "timing only: no accuracy is computed"
    return "stand-in data" if group.standin and (of_target(claim) or claim.about == "accuracy") else ""


def shared_cores(claim: Claim, group: Runs) -> str:
    """The papers' ranks have a core or a GPU each: times of ranks that compute on shared cores say something else."""
    if claim.about != "time" or not claim.own_cores or not group.kind.startswith("measured"):
        return ""
    for run in group.records.values():
        if shared := run["hardware"].get("gpu_shared_by"):
            return f"{shared} ranks share a GPU"
        if run["launcher"] == "srun":
            continue  # which spreads ranks over machines, of which the record tells one
        hardware, ranks = run["hardware"], (run.get("ranks") or run["workers"]) * (run.get("threads_per_rank") or 1)
        if not hardware.get("gpu") and ranks > hardware.get("cores", ranks):
            return f"{ranks} ranks share {hardware['cores']} cores"
    return ""


@cache
def validation(results: Path | None) -> list[dict[str, Any]]:
    """Observed beside simulated steps of the runs that count for the validation's goal."""
    return [
        {"run": tidy.name(run), "observed_s": step["observed_s"]["median"]}
        | {name: step[name] for name in ("strategy", "bytes", "simulated_s")}
        for run in (found.summary for found in catalogue.runs("validation", results))
        if run.get("program") == "validation"  # and not a control, whose answer is known
        if run["experiment"] not in loading.APART
        for step in run["result"]["rows"]
    ]
