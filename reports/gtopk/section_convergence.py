"""The page's part on convergence: Figures 5, 6, 7 and 12, what is lost, and what goes beyond the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from repro.reports import compute, compute_sparse, curves, tables
from repro.reports.groups import Experiment, Group, length
from repro.reports.gtopk import figure_convergence, frames_convergence
from repro.reports.gtopk.experiments import (
    BEYOND,
    CONSERVATION,
    CONVERGENCE,
    FIG5_RESNET20,
    FIG5_VGG16,
    FIG6_ALEXNET,
    FIG6_RESNET50,
    FIG7_LSTM,
    FIG12_RESNET20,
    FIG12_VGG16,
    PAPER,
    baseline,
)
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.section_figure4 import band
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH, number, spread
from repro.reports.style import metric_name
from repro.reports.verdicts import Verdict

Training = Mapping[str, Mapping[str, Group]]  # experiment -> kind -> group

GAP = (
    "The paper prints curves and words, no numbers. *Loss gap*: the final training loss above that of Dense, in "
    "units of what Dense's loss fell from its first stop to its last (0: the same, below 0: better)."
)
FIGURES: tuple[tuple[str, str, tuple[Experiment, ...]], ...] = (
    ("Figure 5", f"Convergence on CIFAR-10 with four workers. {GAP}", (FIG5_VGG16, FIG5_RESNET20)),
    ("Figure 6", "Convergence on ImageNet with four workers.", (FIG6_ALEXNET, FIG6_RESNET50)),
    ("Figure 7", "Convergence of the LSTM on PTB with four workers, density 0.005; less perplexity is better.",
     (FIG7_LSTM,)),
    ("Figure 12", "Convergence with densities from 0.005 down to 0.0005, and dense.", (FIG12_VGG16, FIG12_RESNET20)),
)  # fmt: skip


def figures(found: Training, verdicts: Sequence[Verdict], files: Files) -> list[Section]:
    """The sections of `FIGURES`."""
    return [figure(title, text, experiments, found, verdicts, files) for title, text, experiments in FIGURES]


def figure(
    title: str, text: str, experiments: Sequence[Experiment], found: Training, verdicts: Sequence[Verdict], files: Files
) -> Section:
    """A part for each experiment and kind with curves and a table, then the verdicts."""
    section = Section(title, experiments[0].name, " ".join([text, *_missing(experiments, found)]))
    for experiment in experiments:
        for group in found[experiment.name].values():
            section.parts.append(part(title, experiment, group, files))
    section.parts.append(finding(_about(verdicts, experiments), title.lower().replace(" ", "-"), files))
    return section


def _missing(experiments: Sequence[Experiment], found: Training) -> list[str]:
    lines = []
    for experiment in experiments:
        name, groups = f"{PAPER}/{experiment.name}", found[experiment.name]
        if not groups:
            lines.append(not_run(name))
        else:
            missing = [kind for kind in experiment.kinds if kind not in groups]
            lines += [f"{CONVERGENCE[experiment.name]}: {not_run(name, kind)}" for kind in missing]
    return lines


def _about(verdicts: Sequence[Verdict], experiments: Sequence[Experiment]) -> list[Verdict]:
    names = {experiment.name for experiment in experiments}
    return [verdict for verdict in verdicts if verdict.claim.experiment in names]


def where(group: Group) -> str:
    """Data set, length, place, band: what a figure's title says."""
    standin = " (stand-in data: accuracies are not the paper's)" if group.standin else ""
    workers = f"{group.first['workers']} workers"
    return (
        f"{group.first['dataset']['name']}{standin}, {length(group)}, {workers}, {tables.hardware(group)}, "
        f"{band(group)}"
    )


def part(title: str, experiment: Experiment, group: Group, files: Files) -> Part:
    """Curves and table of one experiment and kind."""
    kind, model = group.kind, CONVERGENCE[experiment.name]
    name, place = f"{experiment.name}-{kind}", where(group)
    made = Part(f"{model}, {kind}" if title.startswith("Figure") else f"{title}, {kind}")
    made.text = f"{tables.cell(place)}; {len(group.covered())} of {len(group.variants)} variants."
    if group.timing_only:
        made.text += " Time only: nothing was computed, so there is no curve."
    else:
        points = curves.stops(group)
        above = f"{title}, {model} {DASH} {kind.upper()}: {place}"
        caption = (
            f"Training loss (mean since the last stop) and {metric_name(group.metric)} of {model}, **{kind}**: "
            f"median line, {band(group)}, a point for each seed's stop."
        )
        drawn = figure_convergence.draw(points, group.metric, above)
        made.picture = files.picture(drawn, name, f"{title}, {model}, {kind}", caption, {"curves": points})
    table = files.table(frames_convergence.runs(group, baseline(experiment)), f"runs-{name}", ["setting"])
    made.tables.append((f"Final numbers of {model}, **{kind}**; speed-ups are of training time, same iterations.",
                        table))  # fmt: skip
    phases = files.table(tables.breakdown(group), f"breakdown-{name}", ["setting"])
    inner = Part(text="Means over the worker ranks. Selection and residuals are *compress*.", tables=[("", phases)])
    made.folded.append((f"{model}, {kind}: breakdown of an iteration in milliseconds", inner))
    return made


def conservation(found: Training, verdicts: Sequence[Verdict], files: Files) -> Section:
    """What the residual rule loses, and whether putting it back changes convergence."""
    text = (
        "Algorithm 4, line 10 puts back what a rank sent and what is not among the global k. A partial sum that an "
        "inner merge drops although its index survives through another subtree is then neither applied nor put back: "
        "*lost*. With the *exact residual* the rank that dropped it keeps it. *Naive* is Algorithm 2 (allgather, "
        "then the k largest of the sum), which drops nothing before the end. Masses are sums of absolute values over "
        "ranks and steps."
    )
    section = Section("What the residuals lose", CONSERVATION.name, " ".join([text, *_missing((CONSERVATION,), found)]))
    for experiment in (CONSERVATION, FIG5_RESNET20, FIG5_VGG16):
        for kind, group in found[experiment.name].items():
            if experiment is CONSERVATION:
                section.parts.append(part(section.title, experiment, group, files))
            table = frames_convergence.masses(group)
            if len(table):
                shown = files.table(table, f"masses-{experiment.name}-{kind}", ["setting"])
                name = CONVERGENCE[experiment.name]
                text = f"Mass of {name}'s gradients, **{kind}** ({PAPER}/{experiment.name}, {where(group)}):"
                section.parts.append(Part(tables=[(text, shown)]))
            if experiment is CONSERVATION and (line := difference(group)):
                section.parts.append(Part(text=line))
    section.parts.append(finding(_about(verdicts, (CONSERVATION,)), "conservation", files))
    return section


def difference(group: Group) -> str:
    """Does the exact residual change convergence? A line from the numbers."""
    exact, printed = "gTop-k, exact residual", "gTop-k"
    if not (group.runs(exact) and group.runs(printed)) or group.timing_only:
        return ""
    gaps = spread(compute.metric_gap(group, exact, printed).values.values())
    losses = spread(compute_sparse.loss_gap(group, exact, printed).values.values())
    if not gaps.n:
        return ""
    seeds = f"{gaps.n} seed{'s' if gaps.n != 1 else ''}"
    signs = (gaps.low > 0) - (gaps.high < 0)
    verdict = {1: "better in every seed", -1: "worse in every seed", 0: "no difference that the seeds agree on"}
    interval = f" [{gaps.low:+.4f}{DASH}{gaps.high:+.4f}]" if gaps.n > 1 else ""
    loss = "" if math.isnan(losses.median) else f", loss gap {number(losses.median)}"
    told = verdict[signs] if gaps.n > 1 else "one seed says nothing about chance"
    return (
        f"The exact residual against the printed rule, **{group.kind}**: {metric_name(group.metric)} "
        f"{gaps.median:+.4f}{interval} ({seeds}){loss}: {told}."
    )


def beyond(found: Training, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Quantised values, pipelining, momentum correction, sampled selection."""
    text = (
        "What the paper leaves for later, and two options more: values of 16 and of 8 bits on the wire (indices stay "
        "32), the pipelining of Pipe-SGD (K = 2: the aggregated gradient of the last iteration), momentum correction "
        "(Deep Gradient Compression), a threshold from a sample in place of the exact selection. No claim of the "
        "paper."
    )
    return figure("Beyond the paper", text, (BEYOND,), found, verdicts, files)
