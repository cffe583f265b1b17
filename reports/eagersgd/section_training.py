"""The page's part on training: Figures 10 to 13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro.reports import compute_eager, curves, tables
from repro.reports.eagersgd import figure_training, frames_guarantees, frames_training
from repro.reports.eagersgd.experiments import (
    FIG10,
    FIG10_PADDED,
    FIG10_RATIO,
    FIG10_SYNC,
    FIG11,
    FIG11_SYNC,
    FIG12,
    FIG13,
    FIG13_SCALING,
    PAPER,
)
from repro.reports.eagersgd.published import Published
from repro.reports.eagersgd.results import Results
from repro.reports.eagersgd.section_imbalance import about
from repro.reports.groups import Experiment, Group, length
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.section_figure4 import band
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict

Training = Mapping[str, Mapping[str, Group]]  # experiment -> kind -> group


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: its sentence on the page and its experiments, each with a name for what it is."""

    title: str
    text: str
    experiments: tuple[tuple[Experiment, str], ...]
    throughput: bool = True


FIGURES = (
    Figure("Figure 10",
           "Hyperplane regression on 8 ranks, one of them, drawn anew each step, delayed. The paper's ratios imply "
           "some tenths of a second of computation a step, and not the same ones (above); a step here takes less. So "
           "it is run **as it is**, and with each computation **padded** by sleep (simulated: taken to be as long), to "
           "the step that the published throughput implies and to the one that the speed-ups imply. Speed-ups "
           "are over Deep500 with the same delay.",
           ((FIG10, "as it is"), (FIG10_PADDED, "padded to the throughput"), (FIG10_RATIO, "padded to the speed-ups"),
            (FIG10_SYNC, "model synchronisation at 300 ms"))),
    Figure("Figure 11",
           "ResNet-50 on ImageNet, 64 ranks, 4 of them delayed each step: time only, at full size. The accuracies of "
           "90 epochs of ImageNet are not attempted; what periodic model synchronisation is worth is tried on a "
           "smaller network.",
           ((FIG11, "time"), (FIG11_SYNC, "model synchronisation"))),
    Figure("Figure 12",
           "ResNet-32 on CIFAR-10, 8 ranks, all of them delayed by 50 to 400 ms, shifted by a rank each step.",
           ((FIG12, "ResNet-32"),)),
    Figure("Figure 13",
           "LSTM on UCF101's features, 8 ranks: no delay is injected, the imbalance is that of the videos' lengths.",
           ((FIG13, "LSTM"),)),
)  # fmt: skip


def figures(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> list[Section]:
    """Figures 10 to 13, and the scaling of section 6.3."""
    made = [figure(one, found.training, paper, verdicts, files) for one in FIGURES]
    made[-1].parts += scaling(found.training[FIG13_SCALING.name], paper, verdicts, files)
    return made


def figure(one: Figure, found: Training, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Bars of throughput of all sources, then a part an experiment and kind, then the verdicts."""
    section = Section(
        one.title,
        one.experiments[0][0].name,
        " ".join([one.text, *(missing(e, what, found) for e, what in one.experiments)]),
    )
    sources = {
        f"{kind.upper()}, {what}": (experiment, group)
        for experiment, what in one.experiments
        if experiment not in (FIG10_SYNC, FIG11_SYNC)
        for kind, group in found[experiment.name].items()
    }
    if sources:
        section.parts.append(throughput(one.title, sources, paper, files))
    for experiment, what in one.experiments:
        for group in found[experiment.name].values():
            section.parts.append(part(one.title, experiment, what, group, files))
    names = [experiment.name for experiment, _ in one.experiments]
    section.parts.append(finding(about(verdicts, *names), one.title.lower().replace(" ", "-"), files))
    return section


def missing(experiment: Experiment, what: str, found: Training) -> str:
    """What to run for what is not there."""
    groups, name = found[experiment.name], f"{PAPER}/{experiment.name}"
    if not groups:
        return not_run(name)
    absent = [kind for kind in experiment.kinds if kind not in groups]
    return " ".join(f"{what[0].upper()}{what[1:]}: {not_run(name, kind)}" for kind in absent)


def throughput(
    title: str, sources: Mapping[str, tuple[Experiment, Group]], paper: Published, files: Files
) -> Part:  # fmt: skip
    """Steps a second of every source in one picture."""
    import pandas as pd

    frames = {
        name: frames_training.throughput(group, experiment.name, paper) for name, (experiment, group) in sources.items()
    }
    frames = {name: own for name, own in frames.items() if len(own)}
    if not frames:
        return Part()
    kinds = list(dict.fromkeys(name.split(",")[0].lower() for name in frames))
    caption = (
        f"Training steps a second, {' and '.join(f'**{kind}**' for kind in kinds)}; above a bar the speed-up over "
        "the synchronous baseline with the same delay, and the **paper**'s. A line is the seeds' interval."
    )
    places = "; ".join(dict.fromkeys(f"{g.kind.upper()}: {tables.hardware(g)}" for _, g in sources.values()))
    drawn = figure_training.bars(frames, f"{title}, throughput {DASH} {places}")
    every = pd.concat([own.assign(source=name) for name, own in frames.items()])
    name = f"{title.lower().replace(' ', '')}-throughput"
    return Part("Throughput", picture=files.picture(drawn, name, f"{title}, throughput", caption, {"steps": every}))


def where(group: Group, banded: bool = True) -> str:
    """Data set, length, place, and what the band is: what a figure's title says."""
    standin = " (stand-in data: accuracies are not the paper's)" if group.standin else ""
    workers = max(run["workers"] for run in group.used())
    return (
        f"{group.first['dataset']['name']}{standin}, {length(group)}, {workers} workers, {tables.hardware(group)}"
        + (f", {band(group)}" if banded else "")
    )


def part(title: str, experiment: Experiment, what: str, group: Group, files: Files) -> Part:
    """Curves and tables of one experiment and kind."""
    kind, name = group.kind, f"{experiment.name}-{group.kind}"
    place = tables.hardware(group) if group.timing_only else where(group)
    label = title if title.lower() == what else f"{title}, {what}"
    made = Part(f"{what[0].upper()}{what[1:]}, {kind}")
    made.text = f"{tables.cell(place)}; {len(group.covered())} variants{pads(group)}."
    if group.timing_only:
        made.text += " Time only: nothing was computed, so there is no curve."
    else:
        several = [n for n in group.covered() if next(iter(group.runs(n).values()))["workers"] > 1]
        more = tuple(score for score in ("train_top1",) if any(score in run["final"] for run in group.used()))
        points = curves.stops(group, more)
        points = points[points["setting"].isin(several)]
        caption = (
            f"{label}, **{kind}**: median line, {band(group)}, a point for each seed's stop; the training "
            "clock stands still during evaluations."
        )
        of = frames_training.methods(group)
        drawn = figure_training.learning(points, group.metric, more, f"{label} {DASH} {kind.upper()}: {place}", of)
        made.picture = files.picture(drawn, name, f"{label}, {kind}", caption, {"curves": points})
        made.text = " ".join([made.text, frames_guarantees.worth(group)]).strip()
    shown = files.table(frames_training.runs(group, experiment.name), f"runs-{name}", ["setting"])
    note = f"In numbers, **{kind}**; speed-ups are of training time, same iterations and delay, seed by seed."
    made.tables.append((note, shown))
    phases = files.table(tables.breakdown(group), f"breakdown-{name}", ["setting"])
    text = "Means over the worker ranks; *imbalance* is the injected delay, padding counts as *backward*."
    made.folded.append((f"{what[0].upper()}{what[1:]}, {kind}: breakdown of a step in milliseconds",
                        Part(text=text, tables=[("", phases)])))  # fmt: skip
    return made


def pads(group: Group) -> str:
    """What the runs were padded to, and what was injected, where summaries say so."""
    padded = sorted({run["min_compute_s"] for run in group.used() if run.get("min_compute_s")})
    delays = sorted({_injector(run) for run in group.used()} - {""})
    found = [f"computation padded to {' or '.join(f'{s:g}' for s in padded)} s"] if padded else []
    return "".join(f"; {text}" for text in [*found, *([f"injected: {', '.join(delays)}"] if delays else [])])


def _injector(run: Mapping) -> str:
    """`random_one (delay_s 0.2)`"""
    options = dict(run.get("imbalance") or {})
    name = options.pop("name", "none")
    if name == "none":
        return ""
    shown = ", ".join(f"{key} {value:g}" if isinstance(value, int | float) else f"{key} {value}"
                      for key, value in options.items() if value is not None)  # fmt: skip
    return f"{name} ({shown})" if shown else name


def scaling(groups: Mapping[str, Group], paper: Published, verdicts: Sequence[Verdict], files: Files) -> list[Part]:
    """Section 6.3's strong and weak scaling."""
    text = (
        "One node and eight: strong scaling keeps the global batch, weak scaling a node's. Speed-ups are of samples a "
        "second."
    )
    if not groups:
        return [Part("Scaling (section 6.3)", f"{text} {not_run(f'{PAPER}/{FIG13_SCALING.name}')}")]
    table = frames_training.scaling(groups, paper)
    shown = files.table(table, "scaling", list(table.columns))
    return [
        Part("Scaling (section 6.3)", text, tables=[("", shown)]),
        finding(about(verdicts, FIG13_SCALING.name), FIG13_SCALING.name, files),
    ]


def eager_runs(found: Training) -> list[tuple[str, Group]]:
    """(experiment, group) of every group with runs that counted rounds."""
    return [
        (name, group)
        for name, groups in found.items()
        for group in groups.values()
        if next(compute_eager.eager(group), None)
    ]
