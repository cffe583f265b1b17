"""What the results say of each claim: the runs that speak to it, as `evaluate.Evidence`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from repro.answers.claims import claims, evaluate, validated
from repro.answers.claims.claims import Claim, File, Restated
from repro.answers.claims.compute import FUNCTIONS, OF_PROBES, takes_error
from repro.answers.claims.evaluate import Error, Evidence, Judged, Outcome
from repro.answers.claims.stats import median
from repro.answers.tables import columns, loading
from repro.answers.tables.columns import chosen
from repro.answers.tables.loading import KINDS, Summary
from repro.answers.tables.runs import RECORDED, TARGET, Runs
from repro.core.errors import InputError, unknown
from repro.core.paths import REPORTS
from repro.records import catalogue, tidy
from repro.records.kinds import EMULATED, SIMULATED
from repro.records.tidy import AS_GUESSED, INPUT

Finder = Callable[[str, str], Runs | None]  # (experiment, kind) -> the results that speak to a claim


def claims_of(paper: str, folder: Path = REPORTS) -> File:
    """`reports/<paper>/claims.yaml`; InputError for a claim whose function is none, or has other arguments."""
    path = folder / paper / "claims.yaml"
    file = claims.read(path)
    for module in sorted((folder / paper).glob("derived*.py")):
        import_module(f"repro.reports.{paper}.{module.stem}")  # with them come the paper's own functions
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

    every: all runs of the paper; ends_of: end of an assumed input -> those there.
    """

    file: File
    find: Finder
    results: Path | None = None
    every: Runs | None = None
    ends_of: Mapping[str, Runs] = field(default_factory=dict)
    # by the id of a group, which is kept with what was made of it: another may get the id of one that is gone
    _at: dict[tuple[str, int], tuple[Runs, Runs | None]] = field(default_factory=dict, repr=False)

    def judged(self) -> list[Judged]:
        """One a claim and kind, in the file's order."""
        return [
            evaluate.judge(claim, kind, self.evidence(claim, kind), self.file.effect(claim))
            for claim in self.file.claims
            for kind in KINDS
        ]

    def evidence(self, claim: Claim, kind: str) -> Evidence | None:
        """What one kind of number says; None where there are no results of it."""
        if claim.value is None or (group := self.find(claim.experiment, kind)) is None:
            return None
        if reason := not_testable(claim, group):
            return Evidence(Outcome(), not_testable=reason)
        outcome, repeated = outcome_of(claim, group), repetitions(claim, group)
        error = self.error(claim, group) if kind == SIMULATED and claim.about == "time" else None
        if error and takes_error(claim.value):
            ends = (1 + error.share, 1 / (1 + error.share))
            repeated += [value for off in ends for value in outcome_of(claim, group, off=off).values.values()]
            error = None  # is in it
        return Evidence(
            outcome,
            ends=self.ends(claim, kind, outcome),
            repeated=repeated,
            error=error,
            by_construction=self.by_construction(claim, group),
            implied=self.implied(group) if claim.about == "time" else "",
            out_of_scope=shared_cores(claim, group),
            origin=origin(claim, group),
        )

    def ends(self, claim: Claim, kind: str, here: Outcome) -> Mapping[str, float]:
        """Ours at either end of each assumed input, all else as guessed.

        Simulated runs were repeated there; emulated ones share the inputs, and are taken to change by the same factor.
        """
        simulated = self.find(claim.experiment, SIMULATED) if kind in (SIMULATED, EMULATED) and self.ends_of else None
        if simulated is None or (guessed := self.at(AS_GUESSED, simulated)) is None:
            return {}
        base, point, found = median(outcome_of(claim, guessed).values.values()), median(here.values.values()), {}
        for end in sorted(set(self.ends_of) - {AS_GUESSED}):
            group = self.at(end, simulated)
            value = median(outcome_of(claim, group).values.values()) if group else None
            if value is None or base is None or point is None:
                continue
            if point == base:
                found[end] = value
            elif base:
                found[end] = point * value / base
        return found

    def at(self, end: str, group: Runs) -> Runs | None:
        """A group's runs with an input at an end, under the names that they have in the group; None without any."""
        if (end, id(group)) not in self._at:
            self._at[end, id(group)] = (group, self._moved(end, group))
        return self._at[end, id(group)][1]

    def _moved(self, end: str, group: Runs) -> Runs | None:
        there = {place(run): number for number, run in self.ends_of[end].records.items()} if end in self.ends_of else {}
        twins = {number: there[place(run)] for number, run in group.records.items() if place(run) in there}
        if not twins or self.every is None:
            return None
        names = ("experiment", "variant", "factors", "seed")
        records = {
            number: self.every.records[twin] | {name: group.records[number].get(name) for name in names}
            for number, twin in twins.items()
        }
        frame = self.every.frame.loc[list(twins.values())].set_axis(list(twins))
        own = ["experiment", "variant", "seed", *(name for name in frame.columns if name.startswith("factors."))]
        frame[own] = group.frame.loc[list(twins), own]
        return Runs(records, frame)

    def error(self, claim: Claim, group: Runs) -> Error | None:
        """By how much simulated times, and ratios of them, are off."""
        family = {run["strategy"] for run in group.records.values() if run.get("strategy")}
        nbytes = 4 * max((_parameters(run) for run in group.records.values()), default=0)
        of_ratio = claim.paper.unit in ("x", "%")
        return (validated.ratio_error if of_ratio else validated.time_error)(validation(self.results), family, nbytes)

    def by_construction(self, claim: Claim, group: Runs) -> str:
        """Which input of the testbeds fixes this claim's number: it was taken from it, or decides over it alone."""
        found = (
            f"fixed by {one.entry} of {testbed}" for testbed, one in self._restated(group) if claim.id in one.claims
        )
        return next(found, "")

    def implied(self, group: Runs) -> str:
        """Which inputs of the testbeds were implied by claims of the paper."""
        return ", ".join(
            sorted({f"{one.entry} of {testbed}" for testbed, one in self._restated(group) if one.implied_by})
        )

    def _restated(self, group: Runs) -> Iterator[tuple[str, Restated]]:
        for testbed in dict.fromkeys(run["testbed"] for run in group.records.values()):
            for one in self.file.restated:
                if any(fnmatchcase(testbed, pattern) for pattern in one.testbeds):
                    yield testbed, one


def origin(claim: Claim, group: Runs) -> str:
    """Where the runs are from that a number is made of, `reference / workspace`; of a function, all that it may see."""
    assert claim.value is not None
    rows = group.table(claim.value.table)
    sides = [chosen(rows[[*of, "root"]], of) for _, of in claim.value.sides if len(rows)] if claim.value.verb else []
    return " / ".join(sorted({root for side in sides or [group.frame] for root in side["root"].dropna()}))


def outcome_of(claim: Claim, group: Runs, **more: float) -> Outcome:
    """Ours, a number a seed; more: arguments of the function besides the claim's."""
    assert claim.value is not None
    if claim.value.function is None:
        rows = group.table(claim.value.table)
        needed = [name for column, _ in claim.value.sides for name in columns.names(column or "", rows)]
        if lacking := [name for name in needed if name not in group.columns and name.startswith(RECORDED)]:
            return Outcome(reason=f"no {lacking[0]} was recorded")
        return evaluate.numbers(claim.value, rows, off=more.get("off", 1.0))
    if (wanted := OF_PROBES.get(claim.value.function, "train")) != group.program:
        return Outcome(reason=f"{claim.value.function} reads results of the program {wanted}, not of {group.program}")
    return FUNCTIONS[claim.value.function](group, **claim.value.arguments, **more)


def repetitions(claim: Claim, group: Runs) -> list[float]:
    """Between what ours lies by the repetitions of one run, where the run says so, and by its test set."""
    value = claim.value
    assert value is not None
    if value.function or not all(f"{name}_low" in group.columns for name, _ in value.sides):
        return []
    sides, rows = (("_low", "_high"), ("_high", "_low")), group.table(value.table)
    found = [number for ends in sides for number in evaluate.numbers(value, rows, ends).values.values()]
    return [number for number in found if not math.isnan(number)]


def place(run: Summary) -> tuple[Any, ...]:
    """What is the same of a run at every end of an input."""
    model, data = (run.get(part) or {} for part in ("model", "dataset"))
    names = (model.get("name"), data.get("name")) if isinstance(model, dict) else (model, None)
    same = (run["testbed"], *names, *(run.get(name) for name in ("workers", "epochs", "strategy")))
    varied = {name: value for name, value in (run.get("factors") or {}).items() if name != INPUT}
    return (*same, *sorted(map(str, varied.items())))


def not_testable(claim: Claim, group: Runs) -> str:
    """Why runs say nothing of a claim."""
    if claim.about == "accuracy" and group.timing_only:
        return "timing only: no accuracy is computed"
    targets = claim.value is not None and any((column or "").startswith(TARGET) for column, _ in claim.value.sides)
    return "stand-in data" if group.standin and (targets or claim.about == "accuracy") else ""


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


def _parameters(run: Mapping[str, Any]) -> int:
    model = run.get("model")
    return int((model.get("parameters") if isinstance(model, Mapping) else 0) or 0)
