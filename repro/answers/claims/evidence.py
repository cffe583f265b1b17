"""What the results say of each claim: the group of runs that speaks to it, as `evaluate.Evidence`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from repro.answers.claims import claims, evaluate, validated
from repro.answers.claims.claims import Claim, File
from repro.answers.claims.compute import FUNCTIONS, OF_PROBES, takes_error
from repro.answers.claims.evaluate import Error, Evidence, Judged, Outcome
from repro.answers.claims.stats import median
from repro.answers.tables import columns, factors, loading
from repro.answers.tables.columns import Row, chosen
from repro.answers.tables.groups import Group
from repro.answers.tables.loading import KINDS, Summary
from repro.answers.tables.probes import AnyGroup, ProbeGroup
from repro.answers.tables.resolution import of_function
from repro.answers.tables.rows import RECORDED, TARGET, rows
from repro.core.errors import InputError, unknown
from repro.core.paths import REPORTS
from repro.experiment import config, files
from repro.experiment.inputs import BASE, FACTOR
from repro.records import catalogue, tidy
from repro.records.kinds import EMULATED, SIMULATED

Place = tuple[Any, ...]
Finder = Callable[[str, str], AnyGroup | None]  # (experiment, kind) -> the results that speak to a claim


def claims_of(paper: str, folder: Path = REPORTS) -> File:
    """`reports/<paper>/claims.yaml`; InputError for a claim whose function is none, or has other arguments."""
    path = folder / paper / "claims.yaml"
    file = claims.read(path)
    if (folder / paper / "results.py").is_file():
        import_module(f"repro.reports.{paper}.results")  # with it come the paper's own functions
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
class Court:
    """Judges a paper's claims by its results: what to look at for which claim, and what makes it uncertain."""

    paper: str
    file: File
    find: Finder
    results: Path | None
    ends_of: Mapping[str, Sequence[Summary]] = field(default_factory=dict)  # end of an input -> the runs there
    # by the id of a group, which is kept with what was made of it: another may get the id of one that is gone
    _rows: dict[tuple[int, str], tuple[AnyGroup, list[Row]]] = field(default_factory=dict, repr=False)
    _at: dict[tuple[str, int], tuple[AnyGroup, AnyGroup | None]] = field(default_factory=dict, repr=False)

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
        if group is None:
            return None
        if reason := not_testable(claim, group):
            return Evidence(Outcome(), not_testable=reason)
        outcome, repeated = self.outcome(claim, group), self.repeated(claim, group)
        error = self.error(claim, group) if kind == SIMULATED and claim.about == "time" else None
        if error and takes_error(claim.value):
            ends = (1 + error.share, 1 / (1 + error.share))
            repeated += [value for off in ends for value in self.outcome(claim, group, off=off).values.values()]
            error = None  # is in it
        return Evidence(
            outcome,
            ends=self.ends(claim, kind, outcome),
            repeated=repeated,
            error=error,
            by_construction=by_construction(claim, group),
            implied=implied(group) if claim.about == "time" else "",
            out_of_scope=shared_cores(claim, group),
            origin=self.origin(claim, group),
        )

    def origin(self, claim: Claim, group: AnyGroup) -> str:
        """Where the runs are from that a number is made of; of a function, all that it may look at."""
        assert claim.value is not None
        if claim.value.function is None and (rows := self.rows(group, claim.value.table)):
            return loading.origin(row for _, of in claim.value.sides for row in chosen(rows, of))
        return loading.origin(group.used())

    def outcome(self, claim: Claim, group: AnyGroup, **more: float) -> Outcome:
        """Ours, a number a seed; more: arguments of the function besides the claim's."""
        assert claim.value is not None
        if claim.value.function is None:
            rows = self.rows(group, claim.value.table)
            known = rows[0] if rows else {}
            asked = [name for column, _ in claim.value.sides for name in columns.names(column or "", known)]
            missing = [name for name in asked if name not in known]
            if data := [name for name in missing if name.startswith(RECORDED)]:
                return Outcome(reason=f"no {data[0]} was recorded")
            return evaluate.numbers(claim.value, rows, off=more.get("off", 1.0))
        program = group.program if isinstance(group, ProbeGroup) else "train"
        if (wanted := OF_PROBES.get(claim.value.function, "train")) != program:
            reason = f"{claim.value.function} reads results of the program {wanted}, not of {program}"
            return Outcome(reason=reason)
        return FUNCTIONS[claim.value.function](group, **claim.value.arguments, **more)

    def rows(self, group: AnyGroup, table: str = "runs") -> list[Row]:
        """Those of `rows`, which are made once."""
        if (id(group), table) not in self._rows:
            self._rows[id(group), table] = (group, rows(group, table))
        return self._rows[id(group), table][1]

    def repeated(self, claim: Claim, group: AnyGroup) -> list[float]:
        """Between what ours lies by the repetitions of one run, where the run says so, and by its test set."""
        value, found = claim.value, []
        assert value is not None
        if value.function and claim.about == "accuracy" and isinstance(group, Group):
            found = of_function(lambda moved: self.outcome(claim, moved), group)
        elif not value.function and all(f"{name}_low" in (rows := self.rows(group))[0] for name, _ in value.sides):
            sides = (("_low", "_high"), ("_high", "_low"))
            found = [number for ends in sides for number in evaluate.numbers(value, rows, ends).values.values()]
        return [number for number in found if not math.isnan(number)]

    def ends(self, claim: Claim, kind: str, here: Outcome) -> Mapping[str, float]:
        """Ours at either end of each assumed input, all else as guessed.

        Simulated runs were repeated there; emulated ones share the inputs, and are taken to change by the same factor.
        """
        simulated = self.find(claim.experiment, SIMULATED) if kind in (SIMULATED, EMULATED) and self.by_place else None
        if simulated is None or (guessed := self.at(BASE, simulated)) is None:
            return {}
        base, point, found = median(self.outcome(claim, guessed).values.values()), median(here.values.values()), {}
        for end in sorted(set(self.by_place) - {BASE}):
            group = self.at(end, simulated)
            value = median(self.outcome(claim, group).values.values()) if group else None
            if value is None or base is None or point is None:
                continue
            if point == base:
                found[end] = value
            elif base:
                found[end] = point * value / base
        return found

    @cached_property
    def by_place(self) -> Mapping[str, Mapping[Place, Summary]]:
        """End of an input -> what a run is of -> the run there."""
        return {end: {place(run): run for run in runs} for end, runs in self.ends_of.items()}

    def at(self, end: str, group: AnyGroup) -> AnyGroup | None:
        """A group's runs with an input at an end, under the names that they have in the group; None without any."""
        if (end, id(group)) not in self._at:
            self._at[end, id(group)] = (group, self._moved(end, group))
        return self._at[end, id(group)][1]

    def _moved(self, end: str, group: AnyGroup) -> AnyGroup | None:
        there = self.by_place.get(end, {})
        twins = [
            there[place(run)]
            | {name: run[name] for name in ("experiment", "variant", "factors", "seed") if name in run}
            for run in group.summaries
            if place(run) in there
        ]
        if not twins:
            return None
        own = (group.variants,) if isinstance(group, Group) else ()
        return type(group)((*group.key, end), tuple(twins), *own)

    def error(self, claim: Claim, group: AnyGroup) -> Error | None:
        """By how much simulated times, and ratios of them, are off."""
        runs = group.used()
        family = {run["strategy"] for run in runs if run.get("strategy")}
        nbytes = 4 * max((_parameters(run) for run in runs), default=0)
        of_ratio = claim.paper.unit in ("x", "%")
        return (validated.ratio_error if of_ratio else validated.time_error)(validation(self.results), family, nbytes)


def place(run: Summary) -> Place:
    """What is the same of a run at every end of an input."""
    model, data = (run.get(part) or {} for part in ("model", "dataset"))
    names = (model.get("name"), data.get("name")) if isinstance(model, dict) else (model, None)
    same = (run["testbed"], *names, *(run.get(name) for name in ("workers", "epochs", "strategy")))
    varied = {name: value for name, value in factors.of(run).items() if name != FACTOR}
    return (*same, *sorted(map(str, varied.items())))


def not_testable(claim: Claim, group: AnyGroup) -> str:
    """Why runs say nothing of a claim."""
    if claim.about == "accuracy" and group.timing_only:
        return "timing only: no accuracy is computed"
    targets = claim.value is not None and any((column or "").startswith(TARGET) for column, _ in claim.value.sides)
    return "stand-in data" if group.standin and (targets or claim.about == "accuracy") else ""


def shared_cores(claim: Claim, group: AnyGroup) -> str:
    """The papers' ranks have a core or a GPU each: times of ranks that compute on shared cores say something else."""
    if claim.about != "time" or not claim.own_cores or not group.kind.startswith("measured"):
        return ""
    for run in group.used():
        if shared := run["hardware"].get("gpu_shared_by"):
            return f"{shared} ranks share a GPU"
        if run["launcher"] == "srun":
            continue  # which spreads ranks over machines, of which the record tells one
        hardware, ranks = run["hardware"], (run.get("ranks") or run["workers"]) * (run.get("threads_per_rank") or 1)
        if not hardware.get("gpu") and ranks > hardware.get("cores", ranks):
            return f"{ranks} ranks share {hardware['cores']} cores"
    return ""


def by_construction(claim: Claim, group: AnyGroup) -> str:
    """Which input of the testbeds fixes this claim's number: it was taken from it, or decides over it alone."""
    for testbed in testbeds_of(group):
        for entry, restated in restating(testbed, "claims").items():
            if claim.id in restated:
                return f"fixed by {entry} of {testbed}"
    return ""


def implied(group: AnyGroup) -> str:
    """Which inputs of the testbeds were implied by claims of the paper."""
    told = {f"{entry} of {testbed}" for testbed in testbeds_of(group) for entry in restating(testbed, "implied")}
    return ", ".join(sorted(told))


def testbeds_of(group: AnyGroup) -> list[str]:
    return list(dict.fromkeys(run["testbed"] for run in group.used()))


@cache
def restating(testbed: str, how: str = "claims") -> Mapping[str, list[str]]:
    """Entry of a testbed -> the claims that it restates (`claims`) or was implied by (`implied`), by its file and those
    that this one builds on."""
    if testbed not in config.group_names("testbed"):
        return {}  # of somebody else's results
    own = files.group_file("testbed", testbed)
    found: dict[str, list[str]] = {}
    for default in own.get("defaults", ()):
        if str(default).startswith("/testbed/"):
            found |= restating(str(default).removeprefix("/testbed/").partition("@")[0], how)
    return found | (own.get(how) or {})


@cache
def validation(results: Path | None) -> list[Row]:
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
