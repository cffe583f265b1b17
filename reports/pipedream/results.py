"""Which results the PipeDream page shows, and which speak to a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.reports import probes
from repro.reports.gathering import Gathered
from repro.reports.groups import Group, choose, strangers
from repro.reports.loading import KINDS, Summary, load
from repro.reports.pipedream.experiments import ACCURACY, PAPER, PLACES, PROBES, SWEEPS, TABLE_1, TRAINING, WITH
from repro.reports.pipelines import Runs
from repro.reports.probes import ProbeGroup
from repro.reports.sweeps import choose_places, sweep, widened


@dataclass(frozen=True)
class Results:
    """Experiment -> kind -> group of training and of probes; -> group of sweeps; -> kind -> a group a place."""

    training: dict[str, dict[str, Group]]
    places: dict[str, dict[str, list[Group]]]  # the one that claims are judged by first
    sweeps: dict[str, ProbeGroup]  # simulated
    probes: dict[str, dict[str, ProbeGroup]]
    others: list[Group | ProbeGroup]

    @property
    def table1(self) -> Runs | None:
        """The runs of Table 1's rows."""
        found = self.sweeps.get(TABLE_1)
        return Runs.of(found.summaries) if found else None

    @property
    def shown(self) -> dict[tuple[str, str], Group | ProbeGroup]:
        """(experiment, kind) -> group, the first of several places."""
        found: dict[tuple[str, str], Group | ProbeGroup] = {(n, "simulated"): g for n, g in self.sweeps.items()}
        for every in (self.training, self.probes):
            found |= {(name, kind): of[kind] for name, of in every.items() for kind in KINDS if kind in of}
        found |= {(name, kind): of[kind][0] for name, of in self.places.items() for kind in KINDS if of.get(kind)}
        return found

    @property
    def used(self) -> list[Group | ProbeGroup]:
        """Every group in a figure or table, those of further places too."""
        further = [group for of in self.places.values() for some in of.values() for group in some[1:]]
        return [*self.shown.values(), *further]


def gather(summaries: Sequence[Summary], measurements: Sequence[Summary]) -> Results:
    """The groups that the page shows, and all others."""
    summaries = [s | {"experiment": WITH.get(s["experiment"], s["experiment"])} for s in summaries]
    swept = {name for names in SWEEPS.values() for name in names}
    training, places, sweeps, others, known = {}, {}, {}, [], []
    for name, experiments in SWEEPS.items():
        found, rest = sweep([s for s in summaries if s["experiment"] in experiments])
        sweeps |= {name: found} if found else {}
        others += rest
    plain = [s for s in summaries if s["experiment"] not in swept]
    for experiment in (*TRAINING, *PLACES):
        mine = widened(experiment, plain)
        known.append(mine)
        if experiment in PLACES:
            places[experiment.name], rest = choose_places(plain, mine)
        else:
            training[experiment.name], rest = choose(plain, mine)
        others += rest
    others += strangers(plain, known)
    measured = {}
    for name, program in PROBES.items():
        of_name = [s for s in measurements if s["experiment"] == name and s["program"] == program]
        measured[name], rest = probes.choose(of_name, name)
        others += rest
    others += probes.groups([s for s in measurements if PROBES.get(s["experiment"]) != s["program"]])
    return Results(training, places, sweeps, measured, others)


def finder(found: Results) -> Callable[[str, str], Group | ProbeGroup | None]:
    """Which results speak to a claim: those that the page shows.

    Claims about time to accuracy take epochs from the accuracy runs and the times of epochs from Table 1's.
    """

    def find(experiment: str, kind: str) -> Group | ProbeGroup | None:
        group = found.shown.get((experiment, kind))
        rows = found.sweeps.get(TABLE_1)
        if experiment == ACCURACY.name and kind == "simulated" and group and rows:
            return ProbeGroup((), (*group.used(), *rows.summaries))
        return group

    return find


def gathered(results: Path | None) -> Gathered:
    """The results of the page, from a folder alone or from workspace and reference."""
    summaries, measurements = load(PAPER, results), probes.load(PAPER, results)
    found = gather(summaries, measurements)
    return Gathered(found, finder(found))
