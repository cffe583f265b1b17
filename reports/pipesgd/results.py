"""Which results the Pipe-SGD page shows, and which speak to a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro.reports import probes
from repro.reports.evidence import Court, claims_of
from repro.reports.gathering import Gathered, read
from repro.reports.groups import Group, choose, experiment_group, strangers
from repro.reports.loading import Summary
from repro.reports.pipesgd import derived, derived_probes  # noqa: F401  they add to the functions of claims
from repro.reports.pipesgd.experiments import PAPER, PROBES, TRAINING
from repro.reports.probes import ProbeGroup


@dataclass(frozen=True)
class Results:
    """What the page shows: experiment -> kind -> group, of training and of the probes; and what it does not show."""

    training: dict[str, dict[str, Group]]
    probes: dict[str, dict[str, ProbeGroup]]
    others: list[Group | ProbeGroup]
    court: Court | None = None  # which judges the claims by them

    @property
    def shown(self) -> dict[tuple[str, str], Group | ProbeGroup]:
        """(experiment, kind) -> group, in the page's order."""
        every = self.training | self.probes
        return {(name, kind): group for name, groups in every.items() for kind, group in groups.items()}

    @property
    def used(self) -> list[Group | ProbeGroup]:
        """Every group in a figure or table."""
        return list(self.shown.values())


def gather(summaries: Sequence[Summary], measurements: Sequence[Summary]) -> Results:
    """The groups that the page shows, and all others."""
    training: dict[str, dict[str, Group]] = {}
    of_probes: dict[str, dict[str, ProbeGroup]] = {}
    others: list[Group | ProbeGroup] = []
    for experiment in TRAINING:
        training[experiment.name], rest = choose(summaries, experiment)
        others += rest
    for name in PROBES:
        mine = [s for s in measurements if s["experiment"] == name and s["program"] == PROBES[name]]
        of_probes[name], more = probes.choose(mine, name)
        others += more
    others += strangers(summaries, TRAINING)
    others += probes.groups([s for s in measurements if PROBES.get(s["experiment"]) != s["program"]])
    return Results(training, of_probes, others)


def finder(
    summaries: Sequence[Summary], measurements: Sequence[Summary], found: Results
) -> Callable[[str, str], Group | ProbeGroup | None]:
    """Which results speak to a claim: those that the page shows, else any of its experiment."""

    def find(experiment: str, kind: str) -> Group | ProbeGroup | None:
        for known in (found.training, found.probes):
            if experiment in known:
                return known[experiment].get(kind)
        return probes.choose(measurements, experiment)[0].get(kind) or experiment_group(summaries, experiment, kind)

    return find


def gathered(results: Path | None) -> Gathered:
    """The results of the page, from a folder alone or from workspace and reference."""
    summaries, measurements, ends = read(PAPER, results)
    found = gather(summaries, measurements)
    find = finder(summaries, measurements, found)
    return Gathered(replace(found, court=Court(PAPER, claims_of(PAPER), find, results, ends)), find, ends)
