"""Which results the eager-SGD page shows, and which speak to a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro.reports import probes
from repro.reports.eagersgd import derived  # noqa: F401  adds to the functions that claims name
from repro.reports.eagersgd.experiments import PAPER, PROBES, TRAINING, WITH
from repro.reports.gathering import Gathered, read
from repro.reports.groups import Experiment, Group, choose, strangers
from repro.reports.loading import KINDS, Summary
from repro.reports.probes import ProbeGroup


@dataclass(frozen=True)
class Results:
    """Experiment -> kind -> group, of training and of probes; and all groups that the page does not show."""

    training: dict[str, dict[str, Group]]
    probes: dict[str, dict[str, ProbeGroup]]
    others: list[Group | ProbeGroup]

    @property
    def shown(self) -> dict[tuple[str, str], Group | ProbeGroup]:
        """(experiment, kind) -> group."""
        every = {**self.probes, **self.training}
        return {(name, kind): groups[kind] for name, groups in every.items() for kind in KINDS if kind in groups}

    @property
    def used(self) -> list[Group | ProbeGroup]:
        return list(self.shown.values())


def gather(summaries: Sequence[Summary], measurements: Sequence[Summary]) -> Results:
    """The groups that the page shows, and all others."""
    measurements = [s | {"experiment": WITH.get(s["experiment"], s["experiment"])} for s in measurements]
    training, others, known = {}, [], []
    for experiment in TRAINING:
        mine = widened(experiment, summaries)
        known.append(mine)
        training[experiment.name], rest = choose(summaries, mine)
        others += rest
    others += strangers(summaries, known)
    found = {}
    for name, program in PROBES.items():
        found[name], rest = probes.choose([s for s in measurements if s["program"] == program], name)
        others += rest
    others += probes.groups([s for s in measurements if PROBES.get(s["experiment"]) != s["program"]])
    return Results(training, found, others)


def widened(experiment: Experiment, summaries: Sequence[Summary]) -> Experiment:
    """The experiment with variants that its files do not name: strategies of one's own stand beside the paper's."""
    labels = [s["setting"] for s in summaries if s["experiment"] == experiment.name]
    own = {label: ("", {}) for label in labels if label not in experiment.variants}
    return replace(experiment, variants={**experiment.variants, **own})


def finder(found: Results) -> Callable[[str, str], Group | ProbeGroup | None]:
    """Which results speak to a claim: those that the page shows."""
    return lambda experiment, kind: found.shown.get((experiment, kind))


def gathered(results: Path | None) -> Gathered:
    """The results of the page, from a folder alone or from workspace and reference."""
    summaries, measurements, ends = read(PAPER, results)
    found = gather(summaries, measurements)
    return Gathered(found, finder(found), ends)
