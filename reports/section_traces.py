"""The page's part on figures 1, 2 and 3: pictures computed from recorded intervals, and the ring's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.reports.page import Files, Part, Section, not_run
from repro.reports.verdicts import Verdict

from repro.reporting.stats import DASH
from repro.reports import figure1, figure2, figure3, frames_ring, tables
from repro.reports import frames_traces as traces
from repro.reports.groups import Group
from repro.reports.loading import KINDS, Summary
from repro.reports.pipesgd.experiments import FIG1, FIG2, PAPER, RING
from repro.reports.probes import ProbeGroup
from repro.reports.section_timing import finding


def sections(
    first: Mapping[str, Group],
    second: Mapping[str, Group],
    ring: Mapping[str, ProbeGroup],
    verdicts: Sequence[Verdict],
    files: Files,
) -> list[Section]:
    """Figures 1, 2 and 3; the groups of their experiments by kind, and the verdicts on the ring."""
    third = _figure3(ring, files)
    third.parts.append(finding(verdicts, RING, files))
    return [_figure1(first, files), _figure2(second, ring, files), third]


def _figure1(groups: Mapping[str, Group], files: Files) -> Section:
    parts = []
    for kind, group in groups.items():
        found = traces.figure1(group)
        if not len(found):
            continue
        title = f"Figure 1 {DASH} {kind.upper()}: {group.first['model']['name']}, {tables.hardware(group)}"
        caption = (
            f"Figure 1 computed from the intervals of **{kind}** runs ({_made(group)}). A worker that pipelines has a "
            "line for communication of its own, and is idle where its main line waits for it; of the server the boxes "
            "are its updates. The time axis ends with the shortest recording; the CSV has all."
        )
        picture = files.picture(
            figure1.draw(found, title), f"fig1-{kind}", title, caption, {"boxes": found}, _chrome(group)
        )
        parts.append(Part(kind.capitalize(), picture=picture))
    return Section("Figure 1", FIG1.name, _text("three frameworks on one time axis", FIG1.name, groups, parts), parts)


def _figure2(groups: Mapping[str, Group], ring: Mapping[str, ProbeGroup], files: Files) -> Section:
    parts, lines = [], []
    for kind in KINDS:
        group, rings = groups.get(kind), ring.get(kind)
        found = traces.figure2(group, rings)
        if not len(found):
            continue
        there = set(found["panel"])
        lines += [f"({panel}), {kind}: {not_run(f'{PAPER}/{name}').lower()}" for panel, name in
                  (("a and b", FIG2.name), ("c", RING)) if not there & set(panel.split(" and "))]  # fmt: skip
        places = [tables.hardware(group)] if group else []
        places += [_place(traces.ring_run(rings, 3))] if rings else []
        made = "; ".join(_made(g) for g in (group, rings) if g)
        title = f"Figure 2 {DASH} {kind.upper()}: {', '.join(dict.fromkeys(places))}"
        caption = (
            f"Figure 2 computed from the intervals of **{kind}** runs ({made}). "
            "(a) the first worker's lines: what is neither update, computation nor communication is idle. (b) two "
            "iterations with K = 1: the whole gradient in one allreduce, or its segments as the backward pass makes "
            "them. (c) every worker's blocks of one ring allreduce."
        )
        chrome = _chrome(group) if group else {}
        picture = files.picture(figure2.draw(found, title), f"fig2-{kind}", title, caption, {"boxes": found}, chrome)
        parts.append(Part(kind.capitalize(), picture=picture))
    text = _text("limited resources, gradient communication, and a ring", FIG2.name, groups, parts)
    return Section("Figure 2", FIG2.name, " ".join([text, *lines]), parts)


def _figure3(groups: Mapping[str, ProbeGroup], files: Files) -> Section:
    parts = []
    for kind, group in groups.items():
        part = Part(kind.capitalize())
        run = traces.ring_run(group)
        found = traces.figure3(run)
        shown = found[found["codec"].map(traces.light)]
        if len(shown):
            title = f"Figure 3 {DASH} {kind.upper()}: {run['workers']} ranks, {_place(run)}"
            caption = (
                f"Figure 3 computed from the blocks that the first rank recorded, **{kind}**, {run['workers']} ranks, "
                f"seed {run['seed']}: native ring above pipelined ring, on one time "
                "axis for each codec; a pipelined ring transfers (1) and works on blocks (2) at the same time."
            )
            variants = run["result"]["variants"]
            chrome = {v["name"]: traces.raw(v["trace"]) for v in variants if v["trace"]}
            picture = files.picture(
                figure3.draw(shown, title), f"fig3-{kind}", title, caption, {"blocks": found}, chrome
            )
            part.picture = picture
        table = files.table(frames_ring.variants(group), f"ring-{kind}", ["setting", "testbed", "ring", "codec"])
        part.tables.append(
            (f"Seconds of one allreduce, **{kind}**, {_seeds(group)}: median [spread] in milliseconds.", table)
        )
        overheads = frames_ring.overheads(group)
        if len(overheads):
            text = (
                "What decompressing, summing and compressing costs inside the allreduce, over the time of "
                f"communicating (section 3.2; the paper prints it for TernGrad), **{kind}**, {_seeds(group)}."
            )
            table = files.table(overheads, f"overheads-{kind}", ["benchmark", "testbed", "codec"])
            part.tables.append((text, table))
        parts.append(part)
    return Section("Figure 3", RING, _text("blocks of a ring allreduce", RING, groups, parts), parts)


def _text(what: str, name: str, groups: Mapping, parts: list[Part]) -> str:
    experiment = f"{PAPER}/{name}"
    if not groups:
        return not_run(experiment)
    missing = [not_run(experiment, kind) for kind in KINDS if kind not in groups]
    traced = [] if parts else ["No intervals were recorded."]
    return " ".join([f"Computed, not drawn: {what}, from recorded intervals.", *missing, *traced])


def _chrome(group: Group) -> dict:
    runs = {name: traces.recorded(group, name) for name in group.covered()}
    return {name: traces.raw(run["trace"]) for name, run in runs.items() if run}


def _made(group: Group | ProbeGroup) -> str:
    """`mnist_mlp, 4 workers, seed 0`, or of the ring in figure 2 `ring of 3, seed 0`."""
    if isinstance(group, Group):
        return f"{group.first['model']['name']}, {group.first['workers']} workers, seed {group.first['seed']}"
    run = traces.ring_run(group, 3)
    return f"ring of {run['workers']}, seed {run['seed']}"


def _place(run: Summary) -> str:
    return f"modelled: {run['testbed']}" if run["kind"] == "simulated" else str(run["hardware"]["class"])


def _seeds(group: ProbeGroup) -> str:
    count = len(group.seeds())
    return f"{tables.hardware(group)}, {count} seed{'s' if count != 1 else ''}"
