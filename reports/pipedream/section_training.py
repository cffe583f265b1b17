"""The page's part on learning: Figures 10 to 12, and weight versions (section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence

from repro.reports import tables
from repro.reports.groups import Experiment, Group
from repro.reports.learning import learning, where
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.pipedream import figure_accuracy, frames_accuracy, frames_measured
from repro.reports.pipedream.experiments import ACCURACY, PAPER, SEMANTICS, SEMANTICS_ALEXNET
from repro.reports.pipedream.published import Published
from repro.reports.pipedream.results import Results
from repro.reports.section_figure4 import band
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH, number
from repro.reports.style import metric_name
from repro.reports.verdicts import Verdict, about


def figures(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Figures 10 to 12: epochs of a small workload times epoch times of Table 1."""
    groups = found.training[ACCURACY.name]
    text = (
        "Accuracy against time. The paper trains VGG16 on ILSVRC12 for hundreds of hours; here training time is what "
        "section 2.1 says it is, statistical times hardware efficiency: the **epochs** of each strategy come from "
        "real training of a small network on a small data set, the **hours of an epoch** (1.3 million images) from "
        "the simulated full-size runs of Table 1. Only ratios between strategies are evidence. The highest target of "
        "the small workload is in the place of 68 %, 48/68 of it in the place of the 48 % at which the paper "
        "compares ASP; an epoch of ASP takes as long as if it had no communication (the paper says so). Inception-v3 "
        "(Figures 10 b and 11 b) is not trained; its epoch times are in Table 1."
    )
    section = Section(
        "Figures 10 to 12", ACCURACY.name, text if groups else f"{text} {not_run(f'{PAPER}/{ACCURACY.name}')}"
    )
    if groups and found.table1 is None:
        section.text += " No rows of Table 1 were run yet: only epochs can be shown."
    for kind, group in groups.items():
        section.parts.append(_accuracy(group, kind, found, paper, files))
    section.parts.append(finding(about(verdicts, ACCURACY.name), ACCURACY.name, files))
    return section


def _accuracy(group: Group, kind: str, found: Results, paper: Published, files: Files) -> Part:
    part = Part(f"Accuracy against time, epochs {kind}")
    points = frames_accuracy.points(group, found.table1, paper)
    target, lower = frames_accuracy.targets(group)
    if len(points):
        title = f"Figures 10 to 12 {DASH} epochs {kind.upper()}: {where(group)}; hours SIMULATED: paper/pipedream"
        caption = (
            f"Accuracy of the small workload ({where(group)}): median line, {band(group)}, epochs **{kind}**; hours "
            "of an epoch **simulated**. Dashed: the target and 48/68 of it."
        )
        drawn = figure_accuracy.draw(points, group.metric, target, lower, title)
        picture = files.picture(drawn, f"figs10-12-{kind}", "Figures 10 to 12", caption, {"curves": points})
        part.picture = picture
    table = frames_accuracy.table(group, found.table1, paper)
    if len(table):
        goals = f" Target: {metric_name(group.metric)} {number(target)}." if target else " No target was set."
        shown = files.table(table, f"accuracy-{kind}", ["row of Table 1", "strategy"])
        part.tables.append((f"Epochs **{kind}**, hours **simulated**.{goals}", shown))
    return part


def versions(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Stashing, vertical sync and neither."""
    text = (
        "Section 3.4 calls weight stashing critical and the impact of vertical sync negligible, and shows neither. "
        "The same pipeline with stashing, with vertical sync on top, and with neither (*naive*: the backward pass "
        "meets newer weights than the forward pass), beside BSP on as many machines and one machine alone. "
        "Negligible: one point of accuracy, a number of ours."
    )
    experiments = (SEMANTICS, SEMANTICS_ALEXNET)
    missing = [not_run(f"{PAPER}/{e.name}") for e in experiments if not found.training[e.name]]
    section = Section("Weight versions", SEMANTICS.name, " ".join([text, *missing]))
    for experiment, what in zip(experiments, ("VGG-style network", "AlexNet-style network"), strict=True):
        for kind, group in found.training[experiment.name].items():
            section.parts.append(_versions(experiment, what, kind, group, files))
    names = [experiment.name for experiment in experiments]
    section.parts.append(finding(about(verdicts, *names), "semantics", files))
    return section


def _versions(experiment: Experiment, what: str, kind: str, group: Group, files: Files) -> Part:
    name = f"{experiment.name}-{kind}"
    part = Part(f"{what}, {kind}", tables.cell(where(group)) + ".")
    if not group.timing_only:
        part.picture = learning(group, f"Weight versions, {what}", name, files)
        table = frames_measured.versions(group)
        shown = files.table(table, f"versions-{name}", ["setting", "configuration", "semantics"])
        part.tables.append((f"**{kind}**; differences are seed by seed.", shown))
    return part
