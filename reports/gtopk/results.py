"""Which results the gTop-k page shows, and which speak to a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.reports import probes
from repro.reports.gathering import Gathered
from repro.reports.groups import Group, choose, strangers
from repro.reports.gtopk import derived, derived_scaling  # noqa: F401  what claims name
from repro.reports.gtopk.experiments import FIG11, INPUTS, PAPER, PREFERRED, SWEEPS, TRAINING
from repro.reports.loading import KINDS, Summary, load
from repro.reports.probes import ProbeGroup
from repro.reports.sweeps import QUICK


@dataclass(frozen=True)
class Results:
    """Experiment -> kind -> group, of training; experiment -> kind -> groups (a testbed or machine each), of sweeps."""

    training: dict[str, dict[str, Group]]
    sweeps: dict[str, dict[str, list[ProbeGroup]]]
    others: list[Group | ProbeGroup]

    def sweep(self, name: str, kind: str) -> ProbeGroup | None:
        """The group of a sweep that claims are judged by: the first."""
        return next(iter(self.sweeps[name].get(kind, ())), None)

    @property
    def shown(self) -> dict[tuple[str, str], Group | ProbeGroup]:
        """(experiment, kind) -> group, in the page's order."""
        found: dict[tuple[str, str], Group | ProbeGroup] = {}
        for name, groups in self.training.items():
            found |= {(name, kind): group for kind, group in groups.items()}
        for name in self.sweeps:
            found |= {(name, kind): group for kind in KINDS if (group := self.sweep(name, kind))}
        return found

    @property
    def used(self) -> list[Group | ProbeGroup]:
        """Every group in a figure or table, those of further testbeds too."""
        further = [g for kinds in self.sweeps.values() for groups in kinds.values() for g in groups[1:]]
        return [*self.shown.values(), *further]


def gather(summaries: Sequence[Summary], measurements: Sequence[Summary]) -> Results:
    """The groups that the page shows, and all others."""
    sweeps: dict[str, dict[str, list[ProbeGroup]]] = {}
    training: dict[str, dict[str, Group]] = {}
    others: list[Group | ProbeGroup] = []
    for name, program in SWEEPS.items():
        runs = [s for s in (*summaries, *measurements) if s["experiment"] == name]
        sweeps[name], smaller = choose_sweep([s for s in runs if s.get("program", "train") == program], name)
        others += smaller
    plain = [s for s in summaries if s["experiment"] not in (*SWEEPS, INPUTS)]
    for experiment in TRAINING:
        training[experiment.name], rest = choose(plain, experiment)
        others += rest
    others += strangers(plain, TRAINING)
    others += probes.groups([s for s in measurements if SWEEPS.get(s["experiment"]) != s["program"]])
    return Results(training, sweeps, others)


def choose_sweep(runs: Sequence[Summary], name: str) -> tuple[dict[str, list[ProbeGroup]], list[ProbeGroup]]:
    """(kind -> groups, the one that claims are judged by first; those left out: smaller scales of the same place)."""
    found = probes.groups(runs)
    best: dict[tuple, ProbeGroup] = {}
    for group in found:
        place = (group.kind, group.key[2])
        if place not in best or _rank(group) > _rank(best[place]):
            best[place] = group
    kinds: dict[str, list[ProbeGroup]] = {}
    for kind in KINDS:
        if mine := sorted((g for g in best.values() if g.kind == kind), key=_rank, reverse=True):
            kinds[kind] = [_merged(mine)] if name == FIG11 else mine
    return kinds, [group for group in found if group not in best.values()]


def _rank(group: ProbeGroup) -> tuple:
    first = group.first
    return (
        first.get("scale") != QUICK,
        first["testbed"].startswith(PREFERRED) or first["testbed"].startswith("paper/"),
        len(group.summaries),
        group.latest,
    )


def _merged(groups: Sequence[ProbeGroup]) -> ProbeGroup:
    """Machines side by side: each row of a selection says on which device it ran."""
    return ProbeGroup(groups[0].key, tuple(run for group in groups for run in group.summaries))


def finder(found: Results) -> Callable[[str, str], Group | ProbeGroup | None]:
    """Which results speak to a claim: those that the page shows."""

    def find(experiment: str, kind: str) -> Group | ProbeGroup | None:
        if experiment in found.sweeps:
            return found.sweep(experiment, kind)
        return found.training.get(experiment, {}).get(kind)

    return find


def gathered(results: Path | None) -> Gathered:
    """The results of the page, from a folder alone or from workspace and reference."""
    summaries, measurements = load(PAPER, results), probes.load(PAPER, results)
    found = gather(summaries, measurements)
    return Gathered(found, finder(found), tuple(summaries))
