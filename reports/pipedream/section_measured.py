"""The page's part on what was measured here, other schedules, and the memory of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from repro.reports import places, tables
from repro.reports.groups import Experiment, Group
from repro.reports.learning import learning
from repro.reports.page import Files, Part, Section, not_run, slug
from repro.reports.pipedream import figure_bars, frames_measured
from repro.reports.pipedream.experiments import MEASURED_ALEXNET, MEASURED_VGG, MEMORY, PAPER, PLACES
from repro.reports.pipedream.results import Results
from repro.reports.pipelines import BSP, FLUSH, GPIPE, PIPEDREAM, STRAIGHT
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict, about

WHAT = {MEASURED_VGG.name: "VGG-style network", MEASURED_ALEXNET.name: "AlexNet-style network"}


def measured(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Small networks on real ranks, a part a network and place."""
    text = (
        "Real ranks, real messages, wall clock: small networks, and the configuration that the partitioner found for "
        "this machine and network. *Over BSP* is of samples a second, seed by seed, over BSP through the sharded "
        "server; beside it over BSP by a ring allreduce. Claims are judged against the faster of the two, on the "
        "shaped network at 1 Gbit/s where there is one. GPipe and 1F1B with a flush go beyond the paper."
    )
    groups = [(experiment, found.places[experiment.name]) for experiment in PLACES]
    return places.section(PAPER, text, groups, partial(_place, files=files), verdicts, files)


def _place(experiment: Experiment, group: Group, files: Files) -> Part:
    testbed, what = group.first["testbed"], WHAT[experiment.name]
    name, part = places.file_name(experiment, group), places.started(what, group)
    frame = frames_measured.throughput(group)
    if group.runs(BSP) and frame["over_bsp"].notna().any():
        place, base = f"{tables.hardware(group)}, ", "BSP through the sharded server"
        title = f"{what}, throughput over {base} {DASH} {group.kind.upper()}: {place}{testbed}"
        caption = f"Samples a second over those of {base}, **{group.kind}** ({place}testbed {testbed})."
        drawn = figure_bars.throughput({f"{what} on {testbed}": frame}, title)
        part.picture = files.picture(drawn, name, f"{what}, throughput", caption, {"throughput": frame})
    left = ["configuration", "cut before block"]
    part.tables.append((f"**{group.kind}**:", files.table(frames_measured.runs(group), f"runs-{name}", left)))
    if not group.timing_only:
        drawn = learning(group, f"{what} on {testbed}", f"curves-{name}", files)
        part.folded.append((f"{what} on {testbed}: accuracy against time", Part(picture=drawn)))
    phases = files.table(tables.breakdown(group), f"breakdown-{name}", ["setting"])
    part.folded.append((f"{what} on {testbed}: breakdown of an iteration in milliseconds",
                        Part(text="Means over the ranks.", tables=[("", phases)])))  # fmt: skip
    return part


def schedules(found: Results, files: Files) -> Section:
    """GPipe and 1F1B with a flush against 1F1B, same network and place."""
    text = (
        "Beyond the paper: other schedules for stages of the same network. GPipe runs all forward passes of an "
        "iteration before all backward passes; 1F1B with a flush alternates and waits for the pipeline to empty "
        "before an update: both update once an iteration, with no stale weights, and stand idle while the pipeline "
        "fills."
    )
    section = Section("Other schedules", PLACES[0].name, text)
    for experiment in PLACES:
        for groups in found.places[experiment.name].values():
            for group in groups:
                names = [name for name in (STRAIGHT, PIPEDREAM, GPIPE, FLUSH) if group.runs(name)]
                if GPIPE in names or FLUSH in names:
                    section.parts.append(_schedules(experiment, group, names, files))
    if not section.parts:
        section.text += f" {not_run(f'{PAPER}/{MEASURED_VGG.name}')}"
    return section


def _schedules(experiment: Experiment, group: Group, names: Sequence[str], files: Files) -> Part:
    import pandas as pd

    base = PIPEDREAM if PIPEDREAM in names else names[0]
    ratios = frames_measured.throughput(group, base).set_index("setting")
    every = frames_measured.runs(group).set_index("setting")
    columns = ["configuration", "NOAM", "iteration (ms)", "samples/s", "stalled (%)", "largest memory of a rank (MB)"]
    final = [name for name in every.columns if name.startswith("final ")]
    rows = [
        {"setting": name, **every.loc[name, [*columns, *final]].to_dict(),
         f"samples/s over {base}": f"{ratios.loc[name, 'over_bsp']:.3g}"}
        for name in names
    ]  # fmt: skip
    testbed = group.first["testbed"]
    table = files.table(pd.DataFrame(rows), f"schedules-{experiment.name}-{slug(testbed)}", ["configuration"])
    return Part(f"{WHAT[experiment.name]}, {testbed}", tables=[(f"**{group.kind}**, {tables.hardware(group)}:", table)])


def memory(groups: Mapping[str, Group], verdicts: Sequence[Verdict], files: Files) -> Section:
    """Weights, stashes and activations a stage, predicted and observed."""
    text = (
        "Section 3.5: a stage keeps intermediate state of as many minibatches as it has in flight, the input stage "
        "of NOAM, the output stage of one. *Predicted*: computed before the run from sizes of blocks and the "
        "schedule; *observed*: the most that a rank held at once. MB are 10^6 bytes."
    )
    section = Section(
        "Memory of a stage", MEMORY.name, text if groups else f"{text} {not_run(f'{PAPER}/{MEMORY.name}')}"
    )
    for kind, group in groups.items():
        frame = frames_measured.memory(group)
        if not len(frame):
            section.parts.append(Part(f"Memory, {kind}", "No run says its memory a rank."))
            continue
        place = tables.hardware(group)
        title = f"Memory of a rank by stage {DASH} {kind.upper()}: {place}"
        caption = f"Memory of the first replica of each stage, predicted and observed, **{kind}** ({place})."
        drawn = figure_bars.memory(frame, title)
        picture = files.picture(drawn, f"memory-{kind}", "Memory", caption, {"memory": frame})
        shown = files.table(frames_measured.memory_table(frame), f"memory-{kind}", ["configuration"])
        section.parts.append(Part(f"Memory, {kind}", picture=picture, tables=[("", shown)]))
    section.parts.append(finding(about(verdicts, MEMORY.name), "memory", files))
    return section
