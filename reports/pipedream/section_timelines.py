"""The page's part on schedules: Figures 2, 3, 4, 6 and 8 from recorded intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.reports import tables
from repro.reports.groups import Group
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.pipedream import figure_gantt, frames_timelines
from repro.reports.pipedream.experiments import DATA_PARALLEL, FIG8, PAPER, REPLICATED, TIMELINES
from repro.reports.pipedream.experiments import files as files_of
from repro.reports.pipelines import MODEL, PIPEDREAM, configuration
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict, about

PANELS = {
    DATA_PARALLEL: "Figure 2, data parallelism: stalls while parameters are exchanged",
    MODEL: "Figure 3, model parallelism: one minibatch, one machine at a time",
    PIPEDREAM: "Figure 4, pipeline: communication beside the computation",
    REPLICATED: "Figure 6, pipeline with replicated stages",
}


def timelines(groups: Mapping[str, Group], verdicts: Sequence[Verdict], files: Files) -> Section:
    """Figures 2, 3, 4 and 6, a panel each."""
    text = (
        "The paper's illustrations as they come out: the strategies ran a few iterations of a model with equal "
        "blocks, and what is drawn are the recorded intervals. A panel has its own time axis."
    )
    section = Section(
        "Figures 2, 3, 4 and 6", TIMELINES.name, text if groups else f"{text} {not_run(f'{PAPER}/{TIMELINES.name}')}"
    )
    for kind, group in groups.items():
        panels = {_titled(group, name): name for name in group.covered() if frames_timelines.recorded(group, name)}
        section.parts.append(gantt(group, panels, "Figures 2, 3, 4 and 6", f"timelines-{kind}", files))
    section.parts.append(finding(about(verdicts, TIMELINES.name), "timelines", files))
    return section


def _titled(group: Group, variant: str) -> str:
    config = configuration(next(iter(group.runs(variant).values())))
    return PANELS.get(variant, variant) + (f" ({config})" if config else "")


def figure8(groups: Mapping[str, Group], verdicts: Sequence[Verdict], files: Files) -> Section:
    """1F1B on four machines, start-up and steady state, simulated and on real ranks."""
    text = (
        "One-forward-one-backward with four stages: the input stage admits NOAM minibatches, then every machine "
        "alternates. Simulated with blocks that take equally long; measured on real ranks, whose passes are as long "
        "as they are."
    )
    absent = [kind for kind in FIG8.kinds if kind not in groups]
    missing = " ".join(not_run(f"{PAPER}/{file}", kind) for kind in absent for file in files_of(FIG8.name, kind))
    section = Section("Figure 8", FIG8.name, f"{text} {missing}".strip())
    for kind, group in groups.items():
        names = [name for name in group.covered() if frames_timelines.recorded(group, name)]
        if not names:
            section.parts.append(Part(f"1F1B, {kind}", "No intervals were recorded."))
            continue
        part = gantt(group, {f"{name}, {kind}": name for name in names}, "Figure 8", f"fig8-{kind}", files)
        part.heading = f"1F1B, {kind}"
        for name in names:
            shown = files.table(frames_timelines.schedule(group, name), f"schedule-fig8-{kind}-{name}", ["passes"])
            part.tables.append((f"Passes in order (F forward, B backward), **{kind}**, variant *{name}*:", shown))
        section.parts.append(part)
    section.parts.append(finding(about(verdicts, FIG8.name), "fig8", files))
    return section


def gantt(group: Group, panels: Mapping[str, str], what: str, name: str, files: Files) -> Part:
    """Timelines of some variants (title of the panel -> variant) in one picture; their intervals as Chrome traces."""
    import pandas as pd

    found = {title: frames_timelines.boxes(group, variant) for title, variant in panels.items()}
    found = {title: own for title, own in found.items() if len(own)}
    if not found:
        return Part(text="No intervals were recorded.")
    place = tables.hardware(group)
    caption = (
        f"{what}: recorded intervals, **{group.kind}** ({place}); a row a machine, the number in a box is its "
        "minibatch, counted from 1; below a row the communication that its machine has beside the computation."
    )
    traces = {variant: frames_timelines.chrome(group, variant) for variant in panels.values()}
    drawn = figure_gantt.draw(found, f"{what} {DASH} {group.kind.upper()}: {place}")
    every = pd.concat(list(found.values()), ignore_index=True)
    return Part(picture=files.picture(drawn, name, f"{what}, {group.kind}", caption, {"intervals": every}, traces))
