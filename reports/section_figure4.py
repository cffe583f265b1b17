"""The page's part on Figure 4: the whole figure for each kind, then a section a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from repro.reports.page import Files, Part, Section, not_run

from repro.reporting.stats import DASH
from repro.reports import figure4, frames, tables, timeline
from repro.reports.frames_traces import raw, recorded
from repro.reports.groups import Group, length
from repro.reports.loading import KINDS
from repro.reports.pipesgd.experiments import FIGURE4, PAPER, Row

if TYPE_CHECKING:
    import pandas as pd

Chosen = Mapping[str, Mapping[str, Group]]  # experiment -> kind -> the group that the page shows
TIMELINE = ["D-Sync", "Pipe-SGD"]


def sections(chosen: Chosen, quoted: pd.DataFrame, files: Files) -> list[Section]:
    """Figure 4 as a whole and its four rows; `quoted`: the paper's numbers."""
    data = {(row.name, kind): row_data(row, group) for row in FIGURE4 for kind, group in chosen[row.name].items()}
    return [_whole(chosen, data, files), *(_row(row, chosen[row.name], data, quoted, files) for row in FIGURE4)]


def row_data(row: Row, group: Group) -> figure4.RowData:
    """What is drawn of a group."""
    points = frames.curves(group)
    goals = [float(goal) for goal in frames.targets(group)]
    return figure4.RowData(row.label, points, frames.bands(points), frames.breakdown(group), goals)


def _whole(chosen: Chosen, data: Mapping[tuple[str, str], figure4.RowData], files: Files) -> Section:
    """One picture of four rows and three columns for each kind from what there is."""
    parts = []
    for kind in KINDS:
        there = [row for row in FIGURE4 if kind in chosen[row.name]]
        if not there:
            continue
        rows = [data.get((row.name, kind), f"{row.label}: not run yet") for row in FIGURE4]
        places = list(dict.fromkeys(tables.hardware(chosen[row.name][kind]) for row in there))
        figure = figure4.whole(rows, f"Figure 4 {DASH} {kind.upper()}: {', '.join(places)}")
        caption = (
            f"Figure 4 from **{kind}** runs, {len(there)} of {len(FIGURE4)} rows; what each was made with stands in "
            "its own section below."
        )
        picture = files.picture(figure, f"fig4-{kind}", f"Figure 4, {kind}", caption, _together(rows))
        parts.append(Part(f"The whole figure, {kind}", picture=picture))
    text = (
        "Columns: inset of the whole curve, the whole curve, and where the time of end-to-end training goes with the "
        "final accuracy on top. Rows of the paper that have no results yet stay empty."
    )
    return Section("Figure 4", FIGURE4[0].name, text if parts else not_run(f"{PAPER}/{FIGURE4[0].name}"), parts)


def _together(rows: list[figure4.RowData | str]) -> dict[str, pd.DataFrame]:
    """The frames behind the whole figure, with the benchmark's name in each line."""
    import pandas as pd

    there = [data for data in rows if not isinstance(data, str)]
    return {
        "breakdown": pd.concat([data.bars.assign(benchmark=data.label) for data in there]),
        "bands": pd.concat([data.median.assign(benchmark=data.label) for data in there]),
    }


def _row(
    row: Row,
    groups: Mapping[str, Group],
    data: Mapping[tuple[str, str], figure4.RowData],
    quoted: pd.DataFrame,
    files: Files,
) -> Section:
    section = Section(f"Figure 4, row {row.label}", row.name)
    experiment = f"{PAPER}/{row.name}"
    missing = [kind for kind in row.experiment.kinds if kind not in groups]
    if not groups:
        section.text = not_run(experiment)
        return section
    section.text = " ".join(not_run(experiment, kind) for kind in missing)
    for group in groups.values():
        section.parts.append(_kind(row, group, data[row.name, group.kind], quoted, files))
    return section


def _kind(row: Row, group: Group, data: figure4.RowData, quoted: pd.DataFrame, files: Files) -> Part:
    kind, name = group.kind, f"{row.name}-{group.kind}"
    where = f"{group.first['dataset']['name']}, {length(group)}, {tables.hardware(group)}, {band(group)}"
    standin = " (stand-in data: accuracies are not the paper's)" if group.standin else ""
    place = tables.hardware(group) if group.timing_only else f"{where}{standin}"
    text = f"{kind.capitalize()}: {tables.cell(place)}; {len(group.covered())} of {len(group.variants)} variants."
    bars = {"breakdown": data.bars}
    if group.timing_only:
        text += " Time is modelled at the paper's size without arithmetic: **accuracy is not computed here**."
        title = f"Figure 4, {row.label}, timing only {DASH} {kind.upper()}: {tables.hardware(group)}"
        caption = f"The breakdown of {row.label}, **{kind}**: milliseconds of an iteration's main line. {_hidden(data)}"
        picture = files.picture(figure4.row(data, title), name, title, caption, bars)
    else:
        title = f"Figure 4, {row.label} {DASH} {kind.upper()}: {where}"
        caption = (
            f"Figure 4's row {row.label} from **{kind}** runs. (a) and (b): median line, {band(group)}, a point for "
            f"each seed's evaluation; dashed: the targets. (c): seconds of the main line. {_hidden(data)}"
        )
        frames_of = {"curves": data.points, "bands": data.median, **bars}
        picture = files.picture(figure4.row(data, title), name, f"Figure 4, {row.label}, {kind}", caption, frames_of)
    part = Part(f"{row.label}, {kind}", text, picture)
    variants = files.table(tables.variants(group, quoted_metric(quoted, row.label)), f"settings-{name}", ["setting"])
    part.tables.append((
        "Speed-ups are of end-to-end training time for the same iterations, seed by seed; *not reached (k/n seeds)*: k "
        "of n seeds missed the target.", variants))  # fmt: skip
    if not group.timing_only:
        part.folded.append(
            (f"{row.label}, {kind}: accuracy against epochs and against time", _accuracy(row, group, data, files))
        )
    phases = files.table(tables.breakdown(group), f"breakdown-{name}", ["setting"])
    part.folded.append(
        (f"{row.label}, {kind}: breakdown of an iteration in milliseconds", Part(text=PHASES, tables=[("", phases)]))
    )
    if timelines := _timeline(row, group, files):
        part.folded.append((f"{row.label}, {kind}: timeline of D-Sync and Pipe-SGD", timelines))
    return part


PHASES = (
    "Phases are means over the worker ranks; the time of an iteration (table above) is the slowest rank's. "
    "*communicate* is what the main line is blocked on; *all comm.* is all communication, *hidden comm.* what of it "
    "lies behind computation; *compress* is the first compression and last decompression of Algorithm 1 (the hops' own "
    "are part of the communication)."
)


def _hidden(data: figure4.RowData) -> str:
    runs = "separate breakdown runs" if data.bars["breakdown_cells"].any() else "the same runs"
    return f"Phases are from {runs}; hidden communication is beside the bar because it takes no time of its own."


def _accuracy(row: Row, group: Group, data: figure4.RowData, files: Files) -> Part:
    kind = group.kind
    title = (
        f"Convergence, {row.label} {DASH} {kind.upper()}: {group.first['dataset']['name']}, {tables.hardware(group)}"
    )
    caption = (
        "Accuracy against epochs (what staleness and compression cost) and against time (what they gain), "
        f"**{kind}**, {band(group)}."
    )
    figure = figure4.convergence(data.points, data.median, data.goals, title)
    name = f"{row.name}-accuracy-{kind}"
    return Part(picture=files.picture(figure, name, f"Accuracy, {row.label}, {kind}", caption, {"bands": data.median}))


def _timeline(row: Row, group: Group, files: Files) -> Part | None:
    intervals = frames.trace(group, TIMELINE)
    if not len(intervals):
        return None
    title = f"Timeline, {row.label} {DASH} {group.kind.upper()}: {tables.hardware(group)}"
    seed = intervals["seed"].iloc[0]
    caption = (
        f"A few iterations, **{group.kind}**, seed {seed}, from the recorded intervals: main and communication line of "
        "each rank."
    )
    runs = {name: recorded(group, name) for name in TIMELINE}
    chrome = {name: raw(run["trace"]) for name, run in runs.items() if run}
    name = f"{row.name}-timeline-{group.kind}"
    figure = timeline.draw(intervals, title)
    return Part(picture=files.picture(figure, name, title, caption, {"intervals": intervals}, chrome))


def quoted_metric(quoted: pd.DataFrame, label: str) -> dict[str, str]:
    """Variant -> the final top-1 that the paper prints in a row of Figure 4."""
    row = (quoted["place"] == "Figure 4") & (quoted["row"] == label) & (quoted["quantity"] == "final top-1")
    return dict(zip(quoted[row]["setting"], quoted[row]["value"], strict=True))


def band(group: Group) -> str:
    """What the band of a figure is."""
    counts = {len(group.runs(name)) for name in group.covered()}
    if counts == {1}:
        return "one seed, no band"
    if min(counts) >= 5:
        return "bootstrap 95 % band"
    return f"min{DASH}max band" + ("" if max(counts) < 5 else " (bootstrap 95 % from five seeds)")
