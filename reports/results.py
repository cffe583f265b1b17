"""Which results a page shows: a group for each kind of number of each of its experiments, and of its probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro.reports import probes
from repro.reports.groups import Experiment, Group, choose, strangers
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    from repro.reports.evidence import Court


@dataclass(frozen=True)
class Results:
    """Experiment -> kind -> group, of training and of probes; and all groups that the page does not show."""

    training: Mapping[str, Mapping[str, Group]]
    probes: Mapping[str, Mapping[str, ProbeGroup]]
    others: list[Group | ProbeGroup]
    court: Court | None = None  # which judges the claims by them, where tables ask it

    @property
    def shown(self) -> dict[tuple[str, str], Group | ProbeGroup]:
        """(experiment, kind) -> group, in the page's order."""
        every = {**self.training, **self.probes}
        return {(name, kind): group for name, groups in every.items() for kind, group in groups.items()}

    @property
    def used(self) -> list[Group | ProbeGroup]:
        """Every group in a figure or table."""
        return list(self.shown.values())

    def find(self, experiment: str, kind: str) -> Group | ProbeGroup | None:
        """What speaks to a claim of an experiment."""
        return self.shown.get((experiment, kind))


def gather(
    experiments: Sequence[Experiment], programs: Mapping[str, str],
    summaries: Sequence[Summary], measurements: Sequence[Summary],
) -> Results:  # fmt: skip
    """The groups that a page shows, and all others; programs: of each experiment that is a probe's, its program."""
    training: dict[str, dict[str, Group]] = {}
    of_probes: dict[str, dict[str, ProbeGroup]] = {}
    others: list[Group | ProbeGroup] = []
    for experiment in experiments:
        training[experiment.name], rest = choose(summaries, experiment)
        others += rest
    others += strangers(summaries, experiments)
    for name, program in programs.items():
        of_probes[name], more = probes.choose([s for s in measurements if s["program"] == program], name)
        others += more
    others += probes.groups([s for s in measurements if programs.get(s["experiment"]) != s["program"]])
    return Results(training, of_probes, others)
