"""The Pipe-SGD page: every figure and finding of the paper, claims with verdicts; measured and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repro.reports import glance, probes, provenance, section_figure4, section_findings, section_timing, section_traces
from repro.reports.assembly import Built, Finder, Page, runs_of, standins
from repro.reports.experiments import (
    APART,
    CONVERGENCE,
    FIG1,
    FIG2,
    FIGURE4,
    GRADIENT,
    K_SPECTRUM,
    LOSSY,
    MORE,
    PAPER,
    PROBES,
    RESNET20,
    RESNET20_PLAIN,
    RING,
    SHOWN,
    TIMING,
    TRAINING,
)
from repro.reports.groups import Group, choose, experiment_group, strangers
from repro.reports.loading import Summary, load
from repro.reports.page import Files, Section
from repro.reports.probes import ProbeGroup
from repro.reports.reference import read as read_reference
from repro.reports.verdicts import Verdict

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Results:
    """What the page shows: experiment -> kind -> group, of training and of the probes; and all other groups."""

    training: dict[str, dict[str, Group]]
    probes: dict[str, dict[str, ProbeGroup]]
    others: list[Group | ProbeGroup]

    @property
    def shown(self) -> dict[tuple[str, str], Group | ProbeGroup]:
        """(experiment, kind) -> group, in the page's order."""
        every = self.training | self.probes
        return {(name, kind): group for name, groups in every.items() for kind, group in groups.items()}

    @property
    def used(self) -> list[Group | ProbeGroup]:
        """Every group in a figure or table."""
        return list(self.shown.values())


def build(results: Path | None, out: Path) -> Built:
    """(pages, other files, what the overview says): everything about Pipe-SGD under `out`."""
    found, find = gathered(results)
    page = Page.of(PAPER, found, find, SHOWN, lambda name: (name, *MORE.get(name, ())), out)
    speedups = page.files.table(glance.speedups(page.verdicts), "speedups", ["benchmark", "over"])
    at_a_glance = page.glance(
        "End-to-end speed-up of Pipe-SGD with compression, its faster variant (Figure 4):", speedups
    )
    sections = chapters(found, page.verdicts, page.quoted, page.files)
    trained = [group for group in found.used if isinstance(group, Group)]
    deviations = provenance.run_deviations(found.training, FIGURE4)
    return page.write(sections, at_a_glance, deviations, standins(trained), runs_of(found))


def gathered(results: Path | None) -> tuple[Results, Finder]:
    """What the page shows, and which results speak to a claim."""
    summaries, measurements = load(PAPER, results), probes.load(PAPER, results)
    found = gather(summaries, measurements)
    return found, finder(summaries, measurements, found)


def gather(summaries: Sequence[Summary], measurements: Sequence[Summary]) -> Results:
    """The groups that the page shows, and all others."""
    training, of_probes, others = {}, {}, []
    for experiment in TRAINING:
        training[experiment.name], rest = choose(summaries, experiment)
        others += rest
    for name in PROBES:
        mine = [s for s in measurements if s["experiment"] == name and s["program"] == PROBES[name]]
        of_probes[name], rest = probes.choose(mine, name)
        others += rest
    others += strangers([s for s in summaries if s["experiment"] not in APART], TRAINING)
    unknown = [s for s in measurements if PROBES.get(s["experiment"]) != s["program"] and s["experiment"] not in APART]
    others += probes.groups(unknown)
    return Results(training, of_probes, others)


def finder(summaries: Sequence[Summary], measurements: Sequence[Summary], found: Results) -> Finder:
    """Which results speak to a claim: those that the page shows, else any of its experiment."""

    def find(experiment: str, kind: str) -> Group | ProbeGroup | None:
        for known in (found.training, found.probes):
            if experiment in known:
                return known[experiment].get(kind)
        return probes.choose(measurements, experiment)[0].get(kind) or experiment_group(summaries, experiment, kind)

    return find


def chapters(found: Results, verdicts: Sequence[Verdict], quoted: pd.DataFrame, files: Files) -> list[Section]:
    """The page's sections between the glance and the claims."""

    def about(name: str) -> list[Verdict]:
        return [verdict for verdict in verdicts if verdict.claim.experiment == name]

    train, probe = found.training, found.probes
    return [
        *section_figure4.sections(train, quoted, files),
        *section_traces.sections(train[FIG1.name], train[FIG2.name], probe[RING], about(RING), files),
        section_timing.timing_model(probe[TIMING], about(TIMING), files),
        section_timing.gradient_communication(probe[GRADIENT], about(GRADIENT), files),
        section_findings.k_spectrum(train[K_SPECTRUM.name], about(K_SPECTRUM.name), files),
        section_findings.lossy_parameters(train[LOSSY.name], about(LOSSY.name), files),
        section_findings.resnet20(train[RESNET20.name], about(RESNET20.name), files),
        section_findings.resnet20_plain(train[RESNET20_PLAIN.name], about(RESNET20_PLAIN.name), files),
        section_findings.convergence(probe[CONVERGENCE], about(CONVERGENCE), files),
    ]


def reference(path: Path | None = None) -> pd.DataFrame:
    """The paper's numbers, as text, each with its source."""
    return read_reference(PAPER, path)
