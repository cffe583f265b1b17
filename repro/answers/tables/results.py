"""The results of a paper as its page has them: a group for each kind of number of each of its experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from repro.answers.claims.evidence import Court, claims_of
from repro.answers.tables import loading, probes
from repro.answers.tables.groups import Experiment, choose, strangers
from repro.answers.tables.loading import Summary
from repro.answers.tables.probes import AnyGroup
from repro.experiment.inputs import FACTOR


class Read(NamedTuple):
    """The finished runs of a paper: those that trained, at the ends of assumed inputs apart, and those of probes."""

    trained: list[Summary]
    probed: list[Summary]
    ends: Mapping[str, Sequence[Summary]] = {}


def read(paper: str, results: Path | None) -> Read:
    """The results of a paper, read once; InputError for a summary that pages cannot read."""
    trained: list[Summary] = []
    probed: list[Summary] = []
    ends: dict[str, list[Summary]] = {}
    for run in loading.read(paper, results):
        if not loading.trains(run):
            probed.append(run)
        elif end := str((run.get("factors") or {}).get(FACTOR, "")):
            ends.setdefault(end, []).append(run)
        else:
            trained.append(run)
    return Read(trained, probed, ends)


@dataclass
class Results:
    """What a page shows: (experiment, kind) -> group, in its order; and all `others`.

    judged: the groups by which claims are judged where they are not the shown ones. court: judges the claims.
    """

    shown: dict[tuple[str, str], AnyGroup] = field(default_factory=dict)
    others: list[AnyGroup] = field(default_factory=list)
    judged: dict[tuple[str, str], AnyGroup] = field(default_factory=dict)
    court: Court | None = None

    @property
    def used(self) -> list[AnyGroup]:
        """Every group in a figure or table."""
        return list(self.shown.values())

    def find(self, experiment: str, kind: str) -> AnyGroup | None:
        """What speaks to a claim of an experiment."""
        place = (experiment, kind)
        return self.judged.get(place) or self.shown.get(place)

    def of(self, experiment: str) -> dict[str, AnyGroup]:
        """Kind -> what is shown of an experiment."""
        return {kind: group for (name, kind), group in self.shown.items() if name == experiment}

    def show(self, experiment: str, of_kinds: Mapping[str, AnyGroup], others: Iterable[AnyGroup]) -> None:
        """Groups of an experiment, by kind, and what is left of it."""
        self.shown |= {(experiment, kind): group for kind, group in of_kinds.items()}
        self.others += others

    def train(self, experiments: Sequence[Experiment], summaries: Sequence[Summary]) -> None:
        """The best group of each experiment and kind; all that is of none of them."""
        for experiment in experiments:
            self.show(experiment.name, *choose(summaries, experiment))
        self.others += strangers(summaries, experiments)

    def probe(self, programs: Mapping[str, str], measurements: Sequence[Summary]) -> None:
        """The same of probes; programs: of each experiment, its program."""
        for name, program in programs.items():
            self.show(name, *probes.choose([s for s in measurements if s["program"] == program], name))
        self.others += probes.groups([s for s in measurements if programs.get(s["experiment"]) != s["program"]])


def gathered(paper: str, results: Path | None) -> Results:
    """The results of a paper's page, from a folder alone or from workspace and reference, with what judges its claims.

    Raises InputError as `claims_of` and `read` do.
    """
    runs = read(paper, results)
    found: Results = import_module(f"repro.reports.{paper}.results").gather(runs)
    found.court = Court(paper, claims_of(paper), found.find, results, runs.ends)
    return found
