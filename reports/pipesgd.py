"""The Pipe-SGD page: every figure and finding of the paper, claims with verdicts; measured and simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.reports import (
    glance,
    probes,
    provenance,
    section_figure4,
    section_findings,
    section_timing,
    section_traces,
    tables,
)
from repro.reports.claims import read_claims
from repro.reports.experiments import (
    CONVERGENCE,
    FIG1,
    FIG2,
    FIGURE4,
    GRADIENT,
    K_SPECTRUM,
    LOSSY,
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
from repro.reports.order import in_order
from repro.reports.page import Files, Section
from repro.reports.probes import ProbeGroup
from repro.reports.reference import read as read_reference
from repro.reports.render import template, write_page
from repro.reports.verdicts import Verdict, judge_all

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


def build(results: Path | None, out: Path) -> tuple[list[Path], list[Path], dict[str, Any]]:
    """(pages, other files, what the overview says): everything about Pipe-SGD under `out`."""
    summaries, measurements = load(PAPER, results), probes.load(PAPER, results)
    found = gather(summaries, measurements)
    content = read_claims(PAPER)
    verdicts = judge_all(content.claims, finder(summaries, measurements, found))
    quoted, files = reference(), Files(PAPER, out)
    sections = in_order(SHOWN, chapters(found, verdicts, quoted, files))
    standins = sorted({g.first["dataset"]["name"] for g in found.shown.values() if isinstance(g, Group) and g.standin})
    spoken, rest = tables.split(verdicts)
    text = template(
        "pipesgd.md.j2",
        sections=[section.markdown() for section in sections],
        contents=[(section.title, section.anchor) for section in sections],
        anything=bool(found.shown),
        standin=standins,
        glance=glance.text(verdicts, found.shown, files),
        claims=_every(files, tables.claims(spoken), "claims") if spoken else "",
        unattempted=_every(files, tables.unattempted(rest), "claims-not-attempted") if rest else "",
        run_deviations=[
            (tables.cell(line), where) for line, where in provenance.run_deviations(found.training, FIGURE4)
        ],
        deviations=content.deviations,
        contradictions=content.contradictions,
        provenance=_every(files, provenance.header(found.shown), "provenance") if found.shown else "",
        versions=[tables.cell(line) for line in provenance.versions(found.shown.values())],
        testbed=_testbeds(found, files),
        reference=files.table(quoted, "reference", [c for c in quoted.columns if c != "value"]),
        others=tables.markdown(tables.others(found.others), list(tables.others(found.others).columns))
        if found.others
        else "",
    )
    pages = write_page(text, PAPER, out, files.written)
    return (
        pages,
        files.written,
        {
            "verdicts": verdicts,
            "standins": standins,
            "shown": sorted(found.shown),
            "experiments": [*PROBES, *(e.name for e in TRAINING)],
        },
    )


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


def _every(files: Files, table: pd.DataFrame, name: str) -> str:
    """A table of text, all columns to the left."""
    return files.table(table, name, list(table.columns))


def _testbeds(found: Results, files: Files) -> str:
    parameters = tables.testbed_parameters([run for group in found.shown.values() for run in group.used()])
    return files.table(parameters, "testbed", ["parameter", "source"]) if len(parameters) else ""


def reference(path: Path | None = None) -> pd.DataFrame:
    """The paper's numbers, as text, each with its source."""
    return read_reference(PAPER, path)
