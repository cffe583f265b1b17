"""The page's part on the timing model: equations (2) to (7) against what the runs took, and gradient communication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.reports.page import Files, Part, Section, not_run
from repro.reports.verdicts import Verdict

from repro.reporting.stats import DASH
from repro.reports import figure_timing, frames_timing, tables
from repro.reports.loading import KINDS
from repro.reports.pipesgd.experiments import GRADIENT, PAPER, TIMING
from repro.reports.probes import ProbeGroup

Groups = Mapping[str, ProbeGroup]


def timing_model(groups: Groups, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Predicted against observed step time for every variant, model and world size, its error, and efficiency (7)."""
    import pandas as pd

    section = Section("Timing model", TIMING)
    experiment = f"{PAPER}/{TIMING}"
    if not groups:
        section.text = not_run(experiment)
        return section
    found = {kind: frames_timing.predictions(group) for kind, group in groups.items()}
    every = pd.concat(list(found.values()), ignore_index=True)
    section.text = (
        "Predictions take alpha, beta, gamma and S from a microbenchmark of the fabric in use, and the times of "
        "computation without communication. "
        + " ".join(not_run(experiment, kind) for kind in KINDS if kind not in groups)
    )
    title = f"Predicted against observed step time {DASH} {'; '.join(map(_where, groups.values()))}"
    caption = (
        "Every variant, model and world size, a marker a kind: "
        + "; ".join(f"**{kind}** on {tables.hardware(g)}, {_seeds(g)}" for kind, g in groups.items())
        + ". Lines: the range of the observed steps."
    )
    picture = files.picture(figure_timing.scatter(every, title), "timing-model", title, caption, {"predictions": every})
    errors = files.table(frames_timing.errors(every), "timing-errors", ["equation", "reading"])
    section.parts.append(Part("Predicted against observed", picture=picture, tables=[(
        "Error of the predictions (observed over predicted, less 1) by equation; *exactly as printed*: without what "
        "the paper's equations leave out.", errors)]))  # fmt: skip
    section.parts += [_kind(group, found[kind], files) for kind, group in groups.items()]
    section.parts.append(finding(verdicts, "timing-model", files))
    return section


def _kind(group: ProbeGroup, found, files: Files) -> Part:
    kind, place = group.kind, f"**{group.kind}**, {tables.hardware(group)}, {_seeds(group)}"
    part = Part(f"Step times and scaling efficiency, {kind}")
    shown = found.dropna(subset=["efficiency_observed"])
    if len(shown):
        title = f"Scaling efficiency (7) {DASH} {_where(group)}"
        caption = f"Scaling efficiency, equation (7), against world size: observed and predicted, {place}."
        figure = figure_timing.efficiency(shown, title)
        part.picture = files.picture(figure, f"efficiency-{kind}", title, caption, {"efficiency": shown})
    worlds = files.table(frames_timing.by_world(found), f"timing-{kind}", frames_timing.KEYS)
    link = files.csv(found, f"timing-{kind}")
    text = (
        f"Step time in milliseconds, observed / predicted (error), {place}; medians over seeds, every seed and the "
        f"range of its steps in the [CSV]({link})."
    )
    part.tables.append((text, worlds))
    if len(shown):
        table = files.table(frames_timing.efficiency(found), f"efficiency-{kind}", frames_timing.KEYS)
        inner = Part(text=f"Observed / predicted, in percent, {place}.", tables=[("", table)])
        part.folded.append((f"Scaling efficiency as numbers, {kind}", inner))
    table = frames_timing.fits(group)
    title = f"The fabric's model {DASH} {_where(group)}"
    points = frames_timing.fit_points(group)
    inner = Part(
        tables=[(f"Fitted from allreduces of several sizes, {place}.", files.table(table, f"fit-{kind}", ["testbed"]))]
    )
    if len(points):
        caption = f"Allreduce time against bytes and the fitted model, {place}."
        inner.picture = files.picture(
            figure_timing.fits(points, table, title), f"fit-{kind}", title, caption, {"points": points}
        )
    part.folded.append((f"alpha, beta, gamma and S of the fabric, {kind}", inner))
    return part


def gradient_communication(groups: Groups, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Sequential (L = 1) against pipelined gradient communication, and where it turns."""
    section = Section("Sequential or pipelined gradient communication", GRADIENT)
    experiment = f"{PAPER}/{GRADIENT}"
    if not groups:
        section.text = not_run(experiment)
    else:
        section.text = (
            "Equation (6) as printed lets the pipelined computation end with the first segment's backward pass, which "
            "resources without limit would allow; *limited resources* has the whole backward pass in it. "
            + " ".join(not_run(experiment, kind) for kind in KINDS if kind not in groups)
        )
    for kind, group in groups.items():
        part, place = Part(kind.capitalize()), f"**{kind}**, {tables.hardware(group)}, {_seeds(group)}"
        shown = frames_timing.segments(frames_timing.predictions(group))
        if len(shown):
            title = f"Step time against L {DASH} {_where(group)}"
            caption = f"Step time against the number of segments L without a codec, {place}, slow networks first."
            figure = figure_timing.segments(shown, title)
            part.picture = files.picture(figure, f"segments-{kind}", title, caption, {"segments": shown})
        table = frames_timing.turning(group)
        if len(table):
            left = ["model", "testbed", "codec", "bound at L = 1", "faster"]
            part.tables.append((f"Where it turns, {place}.", files.table(table, f"turning-{kind}", left)))
        section.parts.append(part)
    section.parts.append(finding(verdicts, "gradient-communication", files))
    return section


def finding(verdicts: Sequence[Verdict], name: str, files: Files) -> Part:
    """The verdicts of a section, once there are results."""
    if all(verdict.group is None for verdict in verdicts):
        return Part()
    table = tables.found(verdicts)
    return Part(tables=[("Verdicts:", files.table(table, f"verdicts-{name}", list(table.columns)))])


def _where(group: ProbeGroup) -> str:
    return f"{group.kind.upper()}: {tables.hardware(group)}"


def _seeds(group: ProbeGroup) -> str:
    count = len(group.seeds())
    return f"{count} seed{'s' if count != 1 else ''}"
