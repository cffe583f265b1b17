"""The results of a paper for its page: the runs of each experiment by kind of number, and the verdicts on claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from repro.answers.claims.claims import Claim, File, Paper, Tolerance
from repro.answers.claims.drawn import Drawn, Sweeps
from repro.answers.claims.evaluate import ClaimVerdict, evidence_interval
from repro.answers.claims.evidence import ClaimEvaluator, claims_of, claims_path
from repro.answers.claims.kept_evidence import evidence_key, judge_with_kept
from repro.answers.claims.value import Value
from repro.answers.claims.verdict import Interval
from repro.answers.figures import specification
from repro.answers.figures.specification import Experiment
from repro.answers.tables.runs import Runs, has_real_sizes
from repro.answers.tables.selection import best, grouped
from repro.core import config_folders
from repro.core.errors import InputError, unknown_name
from repro.core.paths import results_root
from repro.records import catalogue
from repro.records.identity import Identity
from repro.records.kinds import KINDS, SIMULATED
from repro.records.record import Found
from repro.records.variants import find_superseded


@dataclass
class Results:
    """shown: (experiment, kind) -> runs, in the page's order; others: groups of runs that no figure shows; beside: the
    results that tell how far simulated times are off, None: these."""

    paper: str
    runs: Runs
    experiments: Mapping[str, Experiment]
    file: File
    root: Path | None = None
    shown: dict[tuple[str, str], Runs] = field(default_factory=dict)
    others: list[Runs] = field(default_factory=list)
    sweeps: list[Drawn] = field(default_factory=list)
    beside: Results | None = None
    _drawn: dict[str, Sweeps | None] = field(default_factory=dict)
    _found: dict[tuple[str, str], Runs] = field(default_factory=dict)

    @cached_property
    def evaluator(self) -> ClaimEvaluator:
        def argument(claim: Claim) -> str:
            return run_argument(self.paper, claim, self.experiments)

        return ClaimEvaluator(self.file, self.find, self.root, self.drawn, argument, (self.beside or self).find)

    @cached_property
    def verdicts(self) -> list[ClaimVerdict]:
        """The verdict of every kind of number on every claim, in the file's order."""
        return self.judge(self.file.claims)

    def judge(self, claims: Iterable[Claim]) -> list[ClaimVerdict]:
        """The verdict of every kind of number on some claims."""
        try:
            if self.root is not None:
                return self.evaluator.verdicts(claims)
            groups = {place: group.records.values() for place, group in self.shown.items()}
            return judge_with_kept(self.evaluator, claims, evidence_key(self.paper, groups))
        except InputError as error:
            raise InputError(f"{claims_path(self.paper)}: {error}") from None

    def claims(self, pattern: str, experiment: str | None = None) -> list[ClaimVerdict]:
        """The verdicts that have a number, of the claims whose names match a pattern such as `*-over-dense`."""
        return [
            each
            for each in self.verdicts
            if each.estimate and fnmatch(each.claim.id, pattern) and experiment in (None, each.claim.experiment)
        ]

    def estimate(self, value: Value, experiment: str, kind: str) -> Interval | None:
        """Our number of a time or of a ratio of times, as a claim has it, also where no claim is on it; None without
        runs of this kind, or without draws of inputs that are assumed."""
        about: dict[str, Any] = {"about": "time", "paper": Paper(low=0, shown="-"), "tolerance": Tolerance()}
        claim = Claim(id="-", text="-", source="-", experiment=experiment, value=value, **about)
        evidence = self.evaluator.evidence(claim, kind)
        return evidence_interval(claim, evidence) if evidence and evidence.values and not evidence.not_drawn else None

    def drawn(self, name: str) -> Sweeps | None:
        """The sweeps that speak to the claims of an experiment or family member; None without any."""
        if name not in self._drawn:
            spec = self.experiments.get(name, Experiment())
            sweeps = [each for each in self.sweeps if _speaks(each.run.identity.experiment, name, self.experiments)]
            sweeps = [sweeps[n] for n in Runs.of(each.run for each in sweeps).where(**spec.where).records]
            self._drawn[name] = Sweeps(sweeps, self.find(name, SIMULATED)) if sweeps else None
        return self._drawn[name]

    def of(self, name: str) -> dict[str, Runs]:
        """kind -> the runs that the page shows of an experiment."""
        return {kind: group for (shown, kind), group in self.shown.items() if shown == name}

    def find(self, name: str, kind: str) -> Runs | None:
        """The runs that speak to the claims of an experiment or family member: none on data of other sizes."""
        if (name, kind) not in self._found:
            spec = self.experiments.get(name, Experiment())
            groups = [self.shown.get((name, kind)) or self._member(name, kind)]
            groups += [self.shown.get((other, kind)) for other in spec.beside] if groups[0] else []
            runs = {number: run for group in groups if group for number, run in group.records.items()}
            self._found[name, kind] = self.runs.only(number for number, run in runs.items() if has_real_sizes(run))
        return self._found[name, kind] or None

    def _member(self, name: str, kind: str) -> Runs | None:
        families = (family for family, spec in self.experiments.items() if spec.is_of(name))
        groups = (self.shown[family, kind] for family in families if (family, kind) in self.shown)
        return next((group.where(experiment=name) for group in groups), None)

    @property
    def used(self) -> list[Found]:
        """Every run in a figure or table."""
        return [run for group in self.shown.values() for run in group.records.values()]

    def _show(self, name: str, spec: Experiment, plain: Runs) -> None:
        """Show the best group of each kind, for a family that of each member."""
        numbers: dict[str, list[int]] = {}
        experiments = dict.fromkeys(run.identity.experiment for run in plain.records.values())
        for experiment in sorted(filter(spec.is_of, experiments)) if spec.family else [name]:
            groups = grouped(plain.where(experiment=experiment, **spec.where), spec.varies, spec.variants)
            chosen = best(groups).values()
            for group in groups if spec.every_machine else chosen:
                numbers.setdefault(group.kind, []).extend(group.records)
            self.others += [] if spec.every_machine else [group for group in groups if group not in chosen]
        self.shown |= {(name, kind): self.runs.only(numbers[kind]) for kind in KINDS if kind in numbers}


def speedup_with_range(speedup: float, estimate: Interval | None) -> dict[str, float]:
    """The columns of a speed-up in a table: the best guess, and the range behind its verdict, NaN without one."""
    low, high = (estimate.low, estimate.high) if estimate else (math.nan, math.nan)
    return {"speedup": speedup, "low": low, "high": high}


def run_argument(paper: str, claim: Claim, experiments: Mapping[str, Experiment]) -> str:
    """The argument of `repro run` for a claim; the paper, if its runs are of several experiments."""
    filters = [claim.value.arguments, *(where for _, where in claim.value.sides)] if claim.value else []
    named = next(
        (where["experiment"] for where in filters if isinstance(where.get("experiment"), str)), claim.experiment
    )
    spec = experiments.get(named)
    return spec.run if spec and spec.run else f"{paper}/{named}"


def read(paper: str, root: Path | None) -> Results:
    """The results of a paper's page, from one folder, or from the workspace and the reference (None).

    Raises InputError as `claims_of` and `catalogue.runs` do.
    """
    return arrange(paper, catalogue.runs(paper, root), root, _sweeps(paper, root))


def read_workspace(paper: str, keys: Container[str] | None = None, with_committed: bool = True) -> Results:
    """The results of the runs of the workspace alone, with the ranges that the page gives them: the inputs that a paper
    does not print, and how far simulated times are off, are the same for the user's runs. A verdict without the
    workspace in its `origin` rests on draws alone. keys: of the runs that count; None: all. with_committed: also the
    committed draws and emulated runs, which take seconds.

    Raises InputError as `read`.
    """
    runs = (run for run in catalogue.runs(paper, results_root()) if keys is None or run.record.key in keys)
    mine = arrange(paper, runs, None, _sweeps(paper, None if with_committed else results_root()))
    mine.beside = arrange(paper, catalogue.runs(paper)) if with_committed else None
    return mine


def _sweeps(paper: str, root: Path | None) -> Iterable[Drawn]:
    return (Drawn(run, sweep.draws) for run, sweep in catalogue.sweeps(paper, root))


def arrange(paper: str, records: Iterable[Found], root: Path | None = None, sweeps: Iterable[Drawn] = ()) -> Results:
    """Group the runs of a paper by the experiments of `reports/<paper>/figures.yaml`.

    InputError for a claim on an experiment that is not one of these: it would never be judged.
    """
    specs, file = _experiments(paper), claims_of(paper)
    for claim in file.claims:
        if claim.experiment not in specs and not any(spec.is_of(claim.experiment) for spec in specs.values()):
            wrong = unknown_name("experiment", claim.experiment, specs, all_of="figures.yaml")
            raise InputError(f"{claims_path(paper)}: claim {claim.id}: {wrong}")
    runs = Runs.of(_renamed(run, specs) for run in records)
    drawn = [Drawn(_renamed(each.run, specs), each.draws) for each in sweeps if has_real_sizes(each.run)]
    superseded = find_superseded([*runs.records.values(), *(each.run for each in drawn)])
    drawn = [each for each in drawn if each.run.record.name not in superseded]
    results = Results(paper, runs, specs, file, root, sweeps=drawn)
    for name, spec in specs.items():
        results._show(name, spec, runs)
    grouped_already = {number for group in (*results.shown.values(), *results.others) for number in group.records}
    results.others += grouped(runs.only(number for number in runs.records if number not in grouped_already))
    return results


def _experiments(paper: str) -> Mapping[str, Experiment]:
    return specification.read(config_folders.report_folder(paper) / "figures.yaml").experiments


def _speaks(experiment: str, name: str, specs: Mapping[str, Experiment]) -> bool:
    """Whether an experiment's runs speak to the claims of the experiment or family `name`."""
    names = (name, *specs.get(name, Experiment()).beside)
    return experiment in names or any(specs.get(each, Experiment()).is_of(experiment) for each in names)


def speaks_of_time(paper: str) -> Callable[[Identity], bool] | None:
    """A function that tells whether a claim about times rests on a run; None for a paper without claims."""
    if not claims_path(paper).is_file():
        return None
    specs = _experiments(paper)
    timed = {claim.experiment for claim in claims_of(paper).claims if claim.about == "time" and claim.value}

    def speaks(run: Identity) -> bool:
        model, dataset = (part.name if part else None for part in (run.model, run.dataset))
        experiment = page_experiment(specs, run.experiment, model, dataset)
        return any(_speaks(experiment, name, specs) for name in timed)

    return speaks


def page_experiment(specs: Mapping[str, Experiment], experiment: str, model: str | None, dataset: str | None) -> str:
    """The page's name for the experiment of a run with this model and data set."""
    for name, spec in specs.items():
        if experiment in spec.joins:
            return name
        if experiment == name and spec.named:
            uses = {"model": model, "dataset": dataset}
            ending = (each for each, where in spec.named.items() if where.items() <= uses.items())
            return "-".join((name, *list(ending)[:1]))
    return experiment


def _renamed(run: Found, specs: Mapping[str, Experiment]) -> Found:
    """The run with the page's name for its experiment."""
    dataset = run.dataset.name if run.dataset else None
    experiment = page_experiment(specs, run.identity.experiment, run.model_name, dataset)
    return run if experiment == run.identity.experiment else run.changed(experiment=experiment)
