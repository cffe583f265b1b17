"""Which summaries belong together: a figure or table never mixes machines, data sets, lengths, testbeds or options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from repro.answers.tables import factors
from repro.answers.tables.loading import KINDS, Summary

QUICK = "quick"  # the scale whose numbers stand for no others
PREFERRED = ("paper/", "shaped/1g")  # of several testbeds those by which claims are judged
Chosen = TypeVar("Chosen", bound=Any)  # a Group, or a group of a probe's runs


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper as its page shows it: the variants in the paper's order and what defines each."""

    paper: str
    name: str
    variants: Mapping[str, tuple[str, Mapping[str, Any]]]  # variant -> (strategy or "" for any, options it must have)
    varies: tuple[str, ...] = ()  # names of `properties` in which its variants differ from each other (world sizes)


def planned(paper: str, name: str, varies: tuple[str, ...] = ()) -> Experiment:
    """An experiment with the variants and options that its files give it."""
    return Experiment(paper, name, factors.variants(paper, name), varies)


@dataclass(frozen=True)
class Together:
    """Runs that may stand in one figure."""

    key: tuple
    summaries: tuple[Summary, ...]

    @property
    def first(self) -> Summary:
        return self.summaries[0]

    @property
    def kind(self) -> str:
        return self.first["kind"]

    @property
    def latest(self) -> str:
        return max(map(finished, self.summaries))


@dataclass(frozen=True)
class Group(Together):
    """Runs that trained: of one experiment, kind, hardware class, data set, length, testbed."""

    variants: tuple[str, ...]
    _runs: dict = field(default_factory=dict, repr=False, compare=False)

    @property
    def standin(self) -> bool:
        return bool(self.first["dataset"]["standin"])

    @property
    def timing_only(self) -> bool:
        """Time was modelled without arithmetic: there are no accuracies and no curves."""
        return timing_only(self.first)

    def runs(self, variant: str) -> dict[int, Summary]:
        """seed -> the latest throughput run of a variant."""
        return self._of(variant, breakdown=False)

    def one(self, variant: str) -> Summary:
        """The first seed's throughput run of a variant that is covered."""
        return next(iter(self.runs(variant).values()))

    def phase_runs(self, variant: str) -> dict[int, Summary]:
        """seed -> the run whose phases count: breakdown runs where there are any, else the throughput runs."""
        return self._of(variant, breakdown=True) or self.runs(variant)

    @property
    def asked(self) -> set[str]:
        """The variants whose runs somebody asked for."""
        return {variant for variant, _ in self._runs}

    def covered(self) -> list[str]:
        """Variants with a throughput run, in the experiment's order."""
        return [name for name in self.variants if self.runs(name)]

    def seeds(self) -> list[int]:
        return sorted({seed for name in self.variants for seed in self.runs(name)})

    def used(self) -> list[Summary]:
        """Every run that a figure or table of this group reads."""
        runs = [c for s in self.variants for pick in (self.runs, self.phase_runs) for c in pick(s).values()]
        return list({id(run): run for run in runs}.values())

    def _of(self, variant: str, breakdown: bool) -> dict[int, Summary]:
        if (variant, breakdown) not in self._runs:
            found: dict[int, Summary] = {}
            for run in sorted(self.summaries, key=finished):
                if run["variant"] == variant and bool(run["breakdown"]) == breakdown:
                    found[run["seed"]] = run
            self._runs[variant, breakdown] = dict(sorted(found.items()))
        return self._runs[variant, breakdown]


def timing_only(summary: Summary) -> bool:
    """Did this run (on a testbed with `arithmetic: none`) model time and compute nothing?"""
    return summary["final"][summary["metric"]] is None


def finished(summary: Summary) -> str:
    """When a run finished, as text that sorts: ISO text as it is, seconds since 1970 as ISO in UTC, nothing as ''."""
    value = summary["provenance"].get("finished_at")
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(value or "")


def optimizer(summary: Summary) -> dict[str, Any]:
    """A run's optimizer without what says nothing: plain SGD has no name, a constant learning rate no schedule."""
    found = {name: value for name, value in summary["optimizer"].items() if value is not None and value != []}
    schedule, silent = found.get("schedule", "constant"), set()
    if found.get("name", "sgd") == "sgd":
        silent |= {"name", "alpha", "eps"}
    if schedule == "constant":
        silent |= {"schedule"}
    if schedule != "step":
        silent |= {"milestones"}
    if schedule != "exponential":
        silent |= {"every"}
    if schedule not in ("step", "exponential"):
        silent |= {"decay"}
    if schedule not in ("cosine", "polynomial"):
        silent |= {"over"}
    if schedule != "polynomial":
        silent |= {"power"}
    return {name: value for name, value in found.items() if name not in silent}


def properties(summary: Summary) -> dict[str, Any]:
    """What must be equal within a group. Simulated time is modelled: the testbed's parameters replace hardware."""
    simulated = summary["kind"] == "simulated"
    model = dict(summary.get("testbed_model") or {})
    device, data = model.pop("device", None), summary["dataset"]
    return {
        "kind": summary["kind"],
        "hardware": None if simulated else summary["hardware"]["class"],
        "network": json.dumps(model, sort_keys=True) if simulated else None,
        "device": json.dumps(device, sort_keys=True) if simulated else None,
        "dataset": data["name"],
        "checksum": data.get("checksum"),
        "augmentation": json.dumps(data.get("augmentation"), sort_keys=True),
        "train": data.get("train"),
        "test": data.get("test"),
        "timing_only": timing_only(summary),
        "epochs": summary["epochs"],
        "batch": summary["batch"],
        "testbed": summary["testbed"],
        "launcher": summary["launcher"],
        "threads_per_rank": summary.get("threads_per_rank", 1),
        "eval_every": summary.get("eval_every", 0.25),
        "workers": summary["workers"],
        "model": summary["model"]["name"],
        "parameters": summary["model"].get("parameters"),
        "optimizer": json.dumps(optimizer(summary), sort_keys=True),
    }


def key_of(summary: Summary, varies: Sequence[str] = ()) -> tuple:
    """The values of `properties`, without those in which the variants of an experiment may differ."""
    return tuple(None if name in varies else value for name, value in properties(summary).items())


def belongs(summary: Summary, experiment: Experiment) -> bool:
    """Is this run one of the experiment's variants as the paper has them (not, say, Pipe-SGD with K = 3)?"""
    if summary["experiment"] != experiment.name or summary["variant"] not in experiment.variants:
        return False
    strategy, options = experiment.variants[summary["variant"]]
    return strategy in ("", summary["strategy"]) and all(
        summary["options"].get(name, value) == value for name, value in options.items()
    )


def groups(summaries: Sequence[Summary], variants: Sequence[str], varies: Sequence[str] = ()) -> list[Group]:
    """The summaries by `key_of`, in a fixed order; within a group a variant has the same options in every run."""
    found: dict[tuple, list[Summary]] = {}
    for summary in summaries:
        found.setdefault(key_of(summary, varies), []).append(summary)
    made = []
    for key in sorted(found, key=repr):
        same, differing = _same_options(found[key])
        made.append(Group(key, tuple(same), tuple(variants)))
        if differing:
            rest = groups(differing, variants, varies)
            made += [Group((*group.key, "other options"), group.summaries, group.variants) for group in rest]
    return made


def _same_options(runs: Sequence[Summary]) -> tuple[list[Summary], list[Summary]]:
    """(runs of each variant's most seeded, then latest, set of options; all other runs)."""
    variants: dict[str, dict[str, list[Summary]]] = {}
    for run in runs:
        options = json.dumps([run["strategy"], run["options"]], sort_keys=True)
        variants.setdefault(run["variant"], {}).setdefault(options, []).append(run)
    kept: set[int] = set()
    for of_variant in variants.values():
        best = max(of_variant.values(), key=lambda some: (len({c["seed"] for c in some}), max(map(finished, some))))
        kept |= {id(run) for run in best}
    return [c for c in runs if id(c) in kept], [c for c in runs if id(c) not in kept]


def choose(summaries: Sequence[Summary], experiment: Experiment) -> tuple[dict[str, Group], list[Group]]:
    """(kind -> the group that its figures show, the experiment's other groups)"""
    mine = [s for s in summaries if belongs(s, experiment)]
    return best(groups(mine, tuple(experiment.variants), experiment.varies))


def best(found: Sequence[Chosen]) -> tuple[dict[str, Chosen], list[Chosen]]:
    """(kind -> its best group, all others).

    None of scale quick where there are others; then the papers' networks before others; then most variants or runs;
    then runs with accuracies before those without; then the group that finished last.
    """

    def rank(group: Chosen) -> tuple[Any, ...]:
        first, count = group.first, len(group.covered())
        return (
            first.get("scale") != QUICK,
            first["testbed"].startswith(PREFERRED),
            count,
            not group.timing_only,
            group.latest,
        )

    order = sorted(filter(lambda group: group.covered(), found), key=rank)
    chosen = {group.kind: group for group in order}
    return {kind: chosen[kind] for kind in KINDS if kind in chosen}, [g for g in found if g is not chosen.get(g.kind)]


def widened(experiment: Experiment, summaries: Sequence[Summary]) -> Experiment:
    """The experiment with whatever other variants are found of it."""
    found = dict(experiment.variants)
    for summary in summaries:
        if summary["experiment"] == experiment.name:
            found.setdefault(summary["variant"], ("", {}))
    return replace(experiment, variants=found)


def strangers(summaries: Sequence[Summary], experiments: Sequence[Experiment]) -> list[Group]:
    """Groups of runs that belong to none of the experiments: other names, variants or options."""
    rest = [s for s in summaries if not any(belongs(s, experiment) for experiment in experiments)]
    found = []
    for name in sorted({s["experiment"] for s in rest}):
        of_name = [s for s in rest if s["experiment"] == name]
        found += groups(of_name, sorted({s["variant"] for s in of_name}))
    return found
