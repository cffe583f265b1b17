"""What the results say of each claim: the group of runs that speaks to it, turned into `repro.reporting.Evidence`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.experiment import config, files
from repro.records import catalogue, tidy
from repro.reporting import evaluate, validated
from repro.reporting.claims import Claim, File
from repro.reporting.evaluate import Error, Evidence, Judged, Outcome
from repro.reporting.stats import spread
from repro.reports import (  # noqa: F401  the compute modules add to FUNCTIONS
    compute_batches,
    compute_eager,
    compute_findings,
    compute_ibatch,
    compute_imbalance,
    compute_scaling,
    compute_sparse,
    compute_timing,
    factors,
)
from repro.reports.compute import FUNCTIONS, OF_PROBES
from repro.reports.gathering import AnyGroup, Finder
from repro.reports.groups import Group
from repro.reports.loading import KINDS, Summary
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    import pandas as pd

EMULATED, SIMULATED = "emulated", "simulated"
ENDS = {"": "median", "_low": "min", "_high": "max"}  # of a column of repeated steps


@dataclass(frozen=True)
class Court:
    """Judges a paper's claims by its results: what to look at for which claim, and what makes it uncertain."""

    paper: str
    file: File
    find: Finder
    results: Path | None
    summaries: tuple[Summary, ...] = ()  # every training run of the paper, for those at the ends of inputs
    _frames: dict[int, pd.DataFrame] = field(default_factory=dict, repr=False)

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
        emulating = self.file.emulated.get(claim.experiment) if kind == EMULATED else None
        group = self.find(emulating or claim.experiment, kind)
        if group is None or (emulating and claim.value.function):
            return None
        if reason := not_testable(claim, group):
            return Evidence(Outcome(), not_testable=reason)
        outcome = self.outcome(claim, group)
        return Evidence(
            outcome,
            ends=self.ends(claim, kind, outcome),
            repeated=self.repeated(claim, group),
            error=self.error(claim, group) if kind == SIMULATED and claim.about == "time" else None,
            by_construction=by_construction(claim, group),
            out_of_scope=shared_cores(claim, group),
        )

    def outcome(self, claim: Claim, group: AnyGroup) -> Outcome:
        """Ours, a number a seed."""
        assert claim.value is not None
        if claim.value.function is None:
            return evaluate.numbers(claim.value, self.frame(group))
        program = group.program if isinstance(group, ProbeGroup) else "train"
        if (wanted := OF_PROBES.get(claim.value.function, "train")) != program:
            reason = f"{claim.value.function} reads results of the program {wanted}, not of {program}"
            return Outcome(reason=reason)
        return FUNCTIONS[claim.value.function](group, **claim.value.arguments)

    def frame(self, group: AnyGroup) -> pd.DataFrame:
        """A row a run (of the validation: a strategy), with what verbs need."""
        if id(group) not in self._frames:
            self._frames[id(group)] = frame(group)
        return self._frames[id(group)]

    def repeated(self, claim: Claim, group: AnyGroup) -> list[float]:
        """Between what ours lies by the repetitions of one run, where the run says so."""
        value = claim.value
        assert value is not None
        if value.function or f"{value.column}_low" not in (rows := self.frame(group)):
            return []
        sides = (("_low", "_high"), ("_high", "_low"))
        return [number for ends in sides for number in evaluate.numbers(value, rows, ends).values.values()]

    def ends(self, claim: Claim, kind: str, here: Outcome) -> Mapping[str, float]:
        """Ours at either end of each assumed input, all else as guessed.

        Simulated runs were repeated there; emulated ones share the inputs, and are taken to change by the same factor.
        """
        groups = self.at_ends.get(claim.experiment, {})
        base = self.find(claim.experiment, SIMULATED)
        if not groups or base is None or kind not in (SIMULATED, EMULATED) or not here.values:
            return {}
        guessed, point = _median(self.outcome(claim, base)), _median(here)
        found = {end: _median(self.outcome(claim, group)) for end, group in groups.items()}
        return {end: point * value / guessed for end, value in found.items() if value is not None and guessed and point}

    @cached_property
    def at_ends(self) -> Mapping[str, Mapping[str, Group]]:
        """Experiment -> end of an input -> the runs there, by the variants of the experiment."""
        made: dict[str, dict[str, Group]] = {}
        for experiment, repeating in self.file.inputs.items():
            variants = {frozenset(of.items()): name for name, of in factors.known(self.paper, experiment).items()}
            found: dict[str, list[Summary]] = {}
            for run in self.summaries:
                if run["experiment"] != repeating:
                    continue
                of = dict(factors.of(run))
                end = str(of.pop("input"))
                if variant := variants.get(frozenset(of.items())):
                    found.setdefault(end, []).append(run | {"setting": variant})
            found.pop("base", None)  # stands in the experiment itself
            made[experiment] = {
                end: Group((experiment, end), tuple(runs), tuple(variants.values())) for end, runs in found.items()
            }
        return made

    def error(self, claim: Claim, group: AnyGroup) -> Error | None:
        """By how much simulated times, and ratios of them, are off."""
        rows = validation(self.results)
        if rows is None:
            return None
        runs = group.used()
        family = {run["strategy"] for run in runs if run.get("strategy")}
        nbytes = 4 * max((_parameters(run) for run in runs), default=0)
        of_ratio = claim.paper.unit in ("x", "%")
        return (validated.ratio_error if of_ratio else validated.time_error)(rows, family, nbytes)


def frame(group: AnyGroup) -> pd.DataFrame:
    """The runs of a group as `repro.records.tidy` has them; of emulated steps a row a strategy, at the full rate."""
    import pandas as pd

    if isinstance(group, Group) or group.program != "validation":
        return tidy.frame([tidy.run(run) for run in group.used()])
    rows = []
    for run in group.summaries:
        slow = float(factors.of(run).get("slow_down", 1))
        for row in run["result"]["rows"]:
            own = {"kind": run["kind"], "variant": row["setting"], "seed": run["seed"], "breakdown": False}
            times = {f"iteration_s{end}": row["observed_s"][which] / slow for end, which in ENDS.items()}
            rows.append(own | times)
    return pd.DataFrame(rows)


def not_testable(claim: Claim, group: AnyGroup) -> str:
    """Why runs say nothing of a claim."""
    if claim.about == "accuracy" and group.timing_only:
        return "timing only: no accuracy is computed"
    return "stand-in data" if claim.about == "accuracy" and group.standin else ""


def shared_cores(claim: Claim, group: AnyGroup) -> str:
    """The papers' ranks have a core or a GPU each: times of ranks that compute on shared cores say something else."""
    if claim.about != "time" or not claim.own_cores or not group.kind.startswith("measured"):
        return ""
    for run in group.used():
        hardware, ranks = run["hardware"], (run.get("ranks") or run["workers"]) * (run.get("threads_per_rank") or 1)
        if not hardware.get("gpu") and ranks > hardware.get("cores", ranks):
            return f"{ranks} ranks share {hardware['cores']} cores"
    return ""


def by_construction(claim: Claim, group: AnyGroup) -> str:
    """Which input of the testbeds has this claim as its source."""
    for testbed in dict.fromkeys(run["testbed"] for run in group.used()):
        for entry, claims in restating(testbed).items():
            if claim.id in claims:
                return f"{entry} of {testbed} was taken from it"
    return ""


@cache
def restating(testbed: str) -> Mapping[str, list[str]]:
    """Entry of a testbed -> the claims that it has as its source, by its file and those that this one builds on."""
    if testbed not in config.group_names("testbed"):
        return {}  # of somebody else's results
    own = files.group_file("testbed", testbed)
    found: dict[str, list[str]] = {}
    for default in own.get("defaults", ()):
        if str(default).startswith("/testbed/"):
            found |= restating(str(default).removeprefix("/testbed/").partition("@")[0])
    return found | (own.get("claims") or {})


@cache
def validation(results: Path | None) -> pd.DataFrame | None:
    """Observed beside simulated steps; None where nothing was validated."""
    found = [run for run in catalogue.runs("validation", results) if run.summary["experiment"] != "contention"]
    return catalogue.table("rows", found) if found else None


def _parameters(run: Mapping[str, Any]) -> int:
    model = run.get("model")
    return int((model.get("parameters") if isinstance(model, Mapping) else 0) or 0)


def _median(outcome: Outcome) -> float | None:
    found = spread(outcome.values.values())
    return found.median if found.n else None
