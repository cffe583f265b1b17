"""The page's part on the findings that the paper states beside its figures, each with its verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.reports.page import Files, Part, Section, not_run
from repro.reports.verdicts import Verdict

from repro.reporting.stats import DASH
from repro.reports import figure4, figure_findings, frames, frames_findings, tables
from repro.reports.groups import Experiment, Group, length
from repro.reports.pipesgd.experiments import CONVERGENCE, K_SPECTRUM, LOSSY, PAPER, RESNET20, RESNET20_PLAIN
from repro.reports.probes import ProbeGroup
from repro.reports.section_figure4 import band
from repro.reports.section_timing import finding


def _start(title: str, text: str, experiment: str, kinds: Sequence[str], groups: Mapping) -> Section:
    name = f"{PAPER}/{experiment}"
    missing = [not_run(name, kind) for kind in kinds if kind not in groups] if groups else [not_run(name)]
    return Section(title, experiment, " ".join([text, *missing]))


def _where(group: Group) -> str:
    standin = " (stand-in data)" if group.standin else ""
    return f"{group.first['dataset']['name']}{standin}, {length(group)}, {tables.hardware(group)}, {band(group)}"


def k_spectrum(groups: Mapping[str, Group], verdicts: Sequence[Verdict], files: Files) -> Section:
    """Step time, final metric and time to target against K."""
    text = (
        "Equation (4) gains nothing from K above 2, and each further iteration of staleness may cost accuracy (section "
        "3.1). The staleness-aware learning rate is no part of the paper."
    )
    section = _start("Iteration dependency K", text, K_SPECTRUM.name, K_SPECTRUM.kinds, groups)
    for kind, group in groups.items():
        found = frames_findings.spectrum(group)
        title = f"K as a spectrum {DASH} {kind.upper()}: {_where(group)}"
        caption = f"Step time, accuracy and time to target against K, **{kind}**: a point a seed, lines: medians."
        figure = figure_findings.spectrum(found, group.metric, title)
        picture = files.picture(figure, f"k-spectrum-{kind}", title, caption, {"runs": found})
        table = files.table(frames_findings.spectrum_table(found, group.metric), f"k-spectrum-{kind}", ["setting"])
        section.parts.append(Part(f"K, {kind}", tables.cell(_where(group)) + ".", picture, [("", table)]))
    section.parts.append(finding(verdicts, K_SPECTRUM.name, files))
    return section


def lossy_parameters(groups: Mapping[str, Group], verdicts: Sequence[Verdict], files: Files) -> Section:
    """Final metric against what was compressed."""
    text = (
        "Section 3.2: gradients tolerate lossy compression better than parameters do. The same codecs in the same "
        "ring, once on gradients and once on parameters that are averaged after a local update."
    )
    section = _start("Compression of gradients and of parameters", text, LOSSY.name, LOSSY.kinds, groups)
    for kind, group in groups.items():
        found = frames_findings.lossy(group)
        title = f"Lossy compression {DASH} {kind.upper()}: {_where(group)}"
        caption = f"Final accuracy by codec and by what was communicated, **{kind}**: median, interval, every seed."
        picture = files.picture(
            figure_findings.lossy(found, group.metric, title), f"lossy-{kind}", title, caption, {"runs": found}
        )
        table = files.table(
            frames_findings.lossy_table(found, group.metric), f"lossy-{kind}", ["setting", "communicated"]
        )
        section.parts.append(Part(f"Compression, {kind}", tables.cell(_where(group)) + ".", picture, [("", table)]))
    section.parts.append(finding(verdicts, LOSSY.name, files))
    return section


def resnet20(groups: Mapping[str, Group], verdicts: Sequence[Verdict], files: Files) -> Section:
    """Accuracy on a workload that the paper did not choose, with momentum."""
    text = (
        "A workload that the paper did not choose: does one iteration of staleness cost accuracy there too? With the "
        "momentum of .9 that ResNets are trained with."
    )
    return _accuracy("ResNet-20 on CIFAR-10, with momentum", text, RESNET20, groups, verdicts, files)


def resnet20_plain(groups: Mapping[str, Group], verdicts: Sequence[Verdict], files: Files) -> Section:
    """The same without momentum."""
    text = (
        "The same with plain SGD, as Algorithm 1 prints the update. Added when the runs with momentum were there. On a "
        "quadratic of curvature h a gradient that is one iteration old is stable with momentum m only for "
        "lr·h < 1 - m, where a fresh one is for lr·h < 2(1 + m): at m = .9, a factor of 38; without momentum, of 2."
    )
    return _accuracy("ResNet-20 on CIFAR-10, without momentum", text, RESNET20_PLAIN, groups, verdicts, files)


def _accuracy(
    title: str,
    text: str,
    experiment: Experiment,
    groups: Mapping[str, Group],
    verdicts: Sequence[Verdict],
    files: Files,
) -> Section:
    """Accuracy against epochs and time, the variants' table and the verdicts of one experiment."""
    section = _start(title, text, experiment.name, experiment.kinds, groups)
    for kind, group in groups.items():
        part = Part(f"{title}, {kind}", tables.cell(_where(group)) + ".")
        points = frames.curves(group)
        if len(points):
            median, goals = frames.bands(points), [float(goal) for goal in frames.targets(group)]
            above = f"{title} {DASH} {kind.upper()}: {_where(group)}"
            caption = f"Accuracy against epochs and against time, **{kind}**, {band(group)}."
            figure = figure4.convergence(points, median, goals, above)
            name = f"{experiment.name}-{kind}"
            part.picture = files.picture(figure, name, above, caption, {"bands": median, "curves": points})
        part.tables.append(("", files.table(tables.variants(group), f"{experiment.name}-{kind}", ["setting"])))
        section.parts.append(part)
    section.parts.append(finding(verdicts, experiment.name, files))
    return section


def convergence(groups: Mapping[str, ProbeGroup], verdicts: Sequence[Verdict], files: Files) -> Section:
    """Regret or suboptimality against T with the stated bound, per K, and the slopes."""
    text = (
        "Section 3.3: for convex objectives the average regret stays below 8FL√(K/T), for strongly convex ones the "
        "rate is O(log T / T). A straight line of slope -1/2 or -1 in these axes."
    )
    section = _start("Convergence rates", text, CONVERGENCE, (), groups)
    for kind, group in groups.items():
        found, slopes = frames_findings.rates(group), frames_findings.slopes(group)
        seeds = f"{len(group.seeds())} seed{'s' if len(group.seeds()) != 1 else ''}"
        part = Part(f"Rates, {kind}", f"{kind.capitalize()}: {tables.hardware(group)}, {seeds}.")
        if len(found):
            title = f"Convergence rates {DASH} {kind.upper()}: {tables.hardware(group)}, {seeds}"
            caption = (
                f"Average regret (convex) or suboptimality (strongly convex) against T, **{kind}**: median and range "
                "of the seeds; dashed: the stated bound."
            )
            figure = figure_findings.rates(found, slopes, title)
            part.picture = files.picture(figure, f"convergence-rates-{kind}", title, caption, {"points": found})
        table = files.table(slopes, f"convergence-rates-{kind}", ["objective", "step rule"])
        part.tables.append(("", table))
        section.parts.append(part)
    section.parts.append(finding(verdicts, CONVERGENCE, files))
    return section
