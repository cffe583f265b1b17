"""The page's part on sizes and choices: Figures 1 and 5, configurations by cost model, faster networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.reports import tables
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.pipedream import figure_sizes, frames_sizes
from repro.reports.pipedream.experiments import CONFIGURATIONS, FIG1, FIG5, PAPER, WHAT_IF
from repro.reports.pipedream.experiments import files as files_of
from repro.reports.pipedream.published import Published
from repro.reports.pipedream.results import Results
from repro.reports.probes import ProbeGroup
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict, about

Groups = Mapping[str, ProbeGroup]


def one(groups: Groups) -> ProbeGroup | None:
    """Of a computed result the one that there is, whatever it is called."""
    return next(iter(groups.values()), None)


def figure1(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Communication overhead of data parallelism by model, GPU and workers."""
    group = found.sweeps.get(FIG1)
    text = (
        "Share of a step in which a data-parallel worker stands still for communication: five models, three GPUs, 10 "
        "Gbit/s, through a sharded parameter server with wait-free backpropagation. The paper's values could not be "
        "read from its figure; its three take-aways are judged."
    )
    missing = " ".join(not_run(f"{PAPER}/{name}") for name in files_of(FIG1))
    section = Section("Figure 1", FIG1, text if group else f"{text} {missing}")
    if group:
        frame, place = frames_sizes.overheads(group), tables.hardware(group)
        title = f"Figure 1, communication overhead {DASH} SIMULATED: {place}"
        caption = f"Communication overhead against workers, **simulated** ({place})."
        picture = files.picture(figure_sizes.overheads(frame, title), "fig1", "Figure 1", caption, {"overheads": frame})
        shown = files.table(frames_sizes.overhead_table(frame), "fig1", ["GPU"])
        section.parts.append(Part(picture=picture, tables=[("Percent of a step, by number of workers:", shown)]))
    section.parts.append(finding(about(verdicts, FIG1), "fig1", files))
    return section


def figure5(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Sizes of VGG16's layer outputs against its parameters."""
    group = one(found.probes[FIG5])
    text = "What a machine of a pipeline has to send, the output of one layer, against all parameters that BSP sends."
    section = Section("Figure 5", FIG5, text if group else f"{text} {not_run(f'{PAPER}/{FIG5}')}")
    if group:
        frame, result = frames_sizes.layers(group), group.first["result"]
        total, printed = 1e-6 * result["parameter_bytes"], paper.value("Models", "VGG16", "all", "size")
        batch = result.get("batch", group.first.get("batch"))
        title = f"Figure 5, layer outputs of VGG16, minibatch {batch} {DASH} {group.kind.upper()}: counted; PAPER"
        caption = (
            f"Output of each layer for a minibatch of {batch}, its parameters, and all parameters: counted in the "
            f"model that runs (**{group.kind}**), beside the **paper**'s size."
        )
        drawn = figure_sizes.layers(frame, total, printed, title)
        picture = files.picture(drawn, "fig5", "Figure 5", caption, {"layers": frame})
        section.parts.append(Part(picture=picture))
    section.parts.append(finding(about(verdicts, FIG5), "fig5", files))
    return section


def configurations(found: Results, paper: Published, files: Files) -> Section:
    """What each cost model makes of the same profiles."""
    group = one(found.probes[CONFIGURATIONS])
    text = (
        "The partitioner's result for each of three cost models, beside the paper's: `paper` is section 3.2 as "
        "written; `released-sum` is the authors' code, which adds a stage's computation and synchronisation; "
        "`released-max` takes the larger of both. *Over BSP*: as the cost model predicts it. *Optima*: how many "
        "partitions are as good."
    )
    missing = "" if group else not_run(f"{PAPER}/{CONFIGURATIONS}")
    section = Section("Configurations by cost model", CONFIGURATIONS, f"{text} {missing}".strip())
    if group:
        table = frames_sizes.configurations(group, paper)
        told = f"As printed: {frames_sizes.agreements(table)} (**{group.kind}**: computed from modelled profiles)."
        section.parts.append(Part(tables=[(told, files.table(table, "configurations", list(table.columns)))]))
    return section


def what_if(found: Results, files: Files) -> Section:
    """The best configuration as the network gets faster."""
    group = one(found.probes[WHAT_IF])
    text = (
        "Beyond the paper: the best configuration for the same profile as the bandwidth goes from 1 to 100 Gbit/s. All "
        "numbers are predictions of the cost model."
    )
    section = Section(
        "What if the network were faster", WHAT_IF, text if group else f"{text} {not_run(f'{PAPER}/{WHAT_IF}')}"
    )
    if group:
        frame = frames_sizes.what_if(group)
        what = " and ".join(dict.fromkeys(f"{line.model} on {line.machines} machines" for line in frame.itertuples()))
        title = f"{what}: best configuration over bandwidth {DASH} {group.kind.upper()}: predicted"
        caption = f"{what}: predicted speed-up over one machine of the best configuration (**{group.kind}**, computed)."
        drawn = figure_sizes.what_if(frame, title)
        picture = files.picture(drawn, "what-if", "What if", caption, {"configurations": frame})
        shown = files.table(frames_sizes.what_if_table(frame), "what-if", ["model", "configuration"])
        folded = [("In numbers", Part(tables=[("", shown)]))]
        section.parts.append(Part(picture=picture, folded=folded))
    return section
