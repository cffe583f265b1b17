"""A page's section on what was measured here: a part for each experiment and each place that it was run in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from repro.reports import tables
from repro.reports.groups import Experiment, Group
from repro.reports.learning import where
from repro.reports.page import Files, Part, Section, not_run, slug
from repro.reports.section_timing import finding
from repro.reports.sweeps import PREFERRED
from repro.reports.verdicts import Verdict, about


def section(
    paper: str,
    text: str,
    places: Sequence[tuple[Experiment, Mapping[str, Sequence[Group]]]],
    part: Callable[[Experiment, Group], Part],
    verdicts: Sequence[Verdict],
    files: Files,
) -> Section:
    """places: of each experiment its groups by kind, a group a place; part: a place's own."""
    missing = [not_run(f"{paper}/{e.name}", "measured") for e, kinds in places if not kinds.get("measured")]
    made = Section("Measured here", " ".join([text, *missing]))
    for experiment, kinds in places:
        for groups in kinds.values():
            made.parts += [part(experiment, group) for group in groups]
    made.parts.append(finding(about(verdicts, *(experiment.name for experiment, _ in places)), "measured", files))
    return made


def started(what: str, group: Group) -> Part:
    """A place's part with its title and, in the text, hardware and testbed."""
    testbed = group.first["testbed"]
    judged = ", by which claims are judged" if testbed.startswith(PREFERRED) else ""
    return Part(f"{what}, {group.kind}, {testbed}", f"{tables.cell(where(group))}; testbed {testbed}{judged}.")


def file_name(experiment: Experiment, group: Group) -> str:
    """What files about a place are called."""
    return f"{experiment.name}-{slug(group.first['testbed'])}-{slug(str(group.first['hardware']['class']))}"
