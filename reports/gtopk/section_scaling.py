"""The page's part on training efficiency: Figure 10, Table VII, Figure 11, and what does not add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro.reports import tables
from repro.reports.gtopk import figure_scaling, frames_contradictions, frames_scaling
from repro.reports.gtopk.experiments import FIG10, FIG10_MEASURED, FIG11, HEADLINES, PAPER, PARAMETERS
from repro.reports.gtopk.experiments import files as files_of
from repro.reports.gtopk.published import Published, of_model, of_tables
from repro.reports.gtopk.results import Results
from repro.reports.gtopk.section_network import bold, places, start, unrun
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.probes import ProbeGroup
from repro.reports.scaling import ALGORITHMS, MODELS, Steps, of_runs
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict

MODEL = "time model"


@dataclass(frozen=True)
class Efficiency:
    """What Figures 10 and 11 and Table VII are made of: the paper's tables, its time model, runs (or none)."""

    paper: Published
    elements: dict[str, int]
    table: Steps
    model: Steps
    group: ProbeGroup | None
    runs: Steps | None

    @property
    def sources(self) -> dict[str, Steps]:
        """In the order in which they are shown."""
        return {"paper": self.table, MODEL: self.model} | ({"simulated": self.runs} if self.runs else {})


def collect(found: Results, paper: Published) -> Efficiency:
    """Everything from the results and the paper's tables."""
    group = found.sweep(FIG10, "simulated")
    elements = frames_scaling.parameters(group, PARAMETERS)
    runs = of_runs(frames_scaling.throughput_runs(group)) if group else None
    return Efficiency(paper, elements, of_tables(paper), of_model(paper, elements), group, runs)


def _where(data: Efficiency) -> str:
    return places({"simulated": [data.group]})


def _loud(data: Efficiency) -> str:
    return f"SIMULATED: {tables.hardware(data.group)}"


def figure10(data: Efficiency, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Scaling efficiency and speed-up to 32 workers."""
    text = (
        "Scaling efficiency e = (t_f + t_b) / (t_f + t_b + t_c), equation (4), weak scaling, density 0.001. Dashed: "
        "Table I's communication after Table VI's iteration, with the published alpha and beta and free compression. "
        "Stars: Table VII over 32 times Table VI; the paper prints no other point."
    )
    section = start("Figure 10", text, FIG10, {"simulated": data.group} if data.group else {})
    if not data.group:
        return section
    there = {model for model, *_ in data.runs.seconds}
    absent = [file for model, file in zip(MODELS, files_of(FIG10), strict=True) if model not in there]
    section.text = " ".join([section.text, *(not_run(f"{PAPER}/{file}") for file in absent)])
    found = frames_scaling.scaling(data.sources)
    title = f"Figure 10, scaling efficiency and speed-up {DASH} {_loud(data)}; PAPER: Tables I, VI, VII"
    shown = f"**simulated** ({tables.hardware(data.group)}), time model and **paper**"
    caption = f"Scaling efficiency and speed-up over one worker: {shown}."
    picture = files.picture(figure_scaling.scaling(found, title), "fig10", "Figure 10", caption, {"scaling": found})
    section.parts.append(Part(picture=picture))
    about = ("efficiency", "efficiency_kept", "more_stable", "wins")
    section.parts.append(finding([v for v in verdicts if v.claim.compute in about], FIG10, files))
    return section


def table7(data: Efficiency, found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Table VII: paper, model, simulation; and few workers on real links."""
    text = "Images a second of 32 workers: the **paper**'s, the time model's (Tables I and VI), and **simulated**."
    section = start("Table VII", text, FIG10, {"simulated": data.group} if data.group else {})
    table = files.table(frames_scaling.table7(data.sources, data.paper), "table7", ["model", "source"])
    caption = "g/d: gTop-k over dense S-SGD, g/t: over Top-k S-SGD."
    section.parts.append(Part(tables=[(caption, table)]))
    about = ("scaling_speedup", "throughput")
    section.parts.append(finding([v for v in verdicts if v.claim.compute in about], "table7", files))
    group = found.sweep(FIG10_MEASURED, "measured")
    part = Part("Few workers on real links", text="" if group else unrun(FIG10_MEASURED))
    if group:
        sources = {key: steps for key, steps in data.sources.items() if key != "paper"}
        shown = frames_scaling.few_workers(group, sources, data.elements)
        text = (
            "Steps with the models' gradient sizes and Table VI's times (computation sleeps) "
            f"{bold(places({'measured': [group]}))}; *its virtual twin*: the same step simulated from a network that "
            "was measured beforehand on the same links; time model and simulated: the published alpha and beta."
        )
        if len(shown):
            part.tables.append((text, files.table(shown, "few-workers", ["model", "algorithm"])))
    section.parts.append(part)
    mine = [v for v in verdicts if v.claim.experiment == FIG10_MEASURED]
    section.parts.append(finding(mine, FIG10_MEASURED, files))
    return section


def figure11(data: Efficiency, found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Where an iteration's time goes with 32 workers, and what selection costs."""
    text = (
        "Seconds of an iteration's main line with 32 workers; merges are part of the communication. The paper shows "
        "gTop-k only; the others stand beside it. The simulated cost of selecting is an estimate *from the paper's "
        "statement* that it is comparable to computation on VGG-16 and AlexNet: that bar shows the statement, it "
        "does not test it. The measured selections below do."
    )
    section = start("Figure 11", text, FIG10, {"simulated": data.group} if data.group else {})
    if data.runs:
        bars = frames_scaling.breakdown(data.runs)
        if len(bars):
            title = f"Figure 11, breakdown of an iteration, 32 workers {DASH} {_loud(data)}"
            caption = f"Computation, compression and communication, {bold(_where(data))}: seconds of the main line."
            drawn = figure_scaling.breakdown(bars, title)
            picture = files.picture(drawn, "fig11", "Figure 11", caption, {"breakdown": bars})
            table = frames_scaling.breakdown_table(bars, data.model, data.paper)
            shown = files.table(table, "breakdown-fig10", ["model", "algorithm"])
            section.parts.append(Part(picture=picture, tables=[("In numbers, **simulated**:", shown)]))
    mine = [v for v in verdicts if v.claim.compute == "part_over_computation"]
    section.parts.append(finding(mine, FIG11, files))
    group = found.sweep(FIG11, "measured")
    part = Part("What selecting costs", text="" if group else unrun(FIG11))
    if group:
        shown = files.table(frames_scaling.selection(group), "selection", ["model", "device", "method"])
        text = (
            f"Selecting k = 0.001 of the gradients, {bold(places({'measured': [group]}))}; the share is of the "
            "iteration of Table VI on their GPU (**paper**). *exact* and *sampled* are this project's, *torch.topk* "
            "is PyTorch's alone."
        )
        part.tables.append((text, shown))
    section.parts.append(part)
    section.parts.append(finding([v for v in verdicts if v.claim.experiment == FIG11], "selection", files))
    return section


def contradictions(data: Efficiency, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Table VII beside the paper's own model and the simulation, and the claims that survive."""
    found = frames_contradictions.unexplained(data.paper, data.model, data.runs, data.elements)
    off = found[found["algorithm"] == "Dense"]["time_model_over_paper"]
    mbit = {name: found[found["algorithm"] == name]["implied_mbit"] for name in ALGORITHMS}
    ranges = {name: f"{values.min():.0f} to {values.max():.0f}" for name, values in mbit.items()}
    text = (
        "The published alpha, beta and iteration times put into Table I's formulas predict a dense throughput "
        f"{off.min():.1f} to {off.max():.1f} times that of Table VII. Taken the other way round, all four dense rows "
        f"of Table VII are what equation (5) gives on a network of {ranges['Dense']} Mbit/s, a tenth of what Figure 8 "
        f"shows between two machines; those of Top-k are what equation (6) gives on {ranges['Top-k']} Mbit/s, those "
        f"of gTop-k what equation (7) gives on {ranges['gTop-k']} Mbit/s (their compression included). The ratios of "
        "Table VII are ratios of such times."
    )
    section = Section("What does not add up", "", text)
    picture = None
    if data.group:
        title = f"Images a second with 32 workers {DASH} PAPER, its time model, {_loud(data)}"
        caption = f"Throughput with 32 workers: **paper**, time model, **simulated** ({tables.hardware(data.group)})."
        drawn = figure_scaling.throughputs(found, title)
        picture = files.picture(drawn, "throughputs", "Throughput, three sources", caption, {"throughputs": found})
    table = files.table(frames_contradictions.unexplained_table(found), "unexplained", ["model", "algorithm"])
    note = (
        "What is *not explained* is Table VII's iteration less the model's; *bandwidth*: what Table I's formula "
        "would need to take the whole of Table VII's iteration that Table VI does not; for the sparse algorithms "
        "their compression is in it too."
    )
    section.parts.append(Part(picture=picture, tables=[(note, table)]))
    rows = files.table(frames_contradictions.arithmetic(data.paper), "arithmetic")
    text = (
        "Table VII's ratios and averages again, from its own rows, and the efficiencies that it implies with Table VI "
        "(section IV-E: up to 80 % for the ResNets):"
    )
    section.parts.append(Part("Table VII's arithmetic", tables=[(text, rows)]))
    sources = {"Tables VII and VI": data.table, MODEL: data.model}
    text = (
        "The claims that the paper is known for, judged in the same way from its own tables, from its time model, "
        "from the simulation and from what was measured."
    )
    headlines = frames_contradictions.survivors(verdicts, sources, HEADLINES)
    shown = files.table(headlines, "headlines", list(headlines.columns))
    every = frames_contradictions.survivors(verdicts, sources)
    counts = "; ".join(f"{name}: {frames_contradictions.counted(every, name)}" for name in [*sources, "simulated"])
    told = f"{text} Of all claims about Figures 10 and 11 and Table VII, by source, match: {counts}."
    inner = Part(tables=[("", files.table(every, "survivors", list(every.columns)))])
    folded = [("All claims about Figure 10, Figure 11 and Table VII, by source", inner)]
    section.parts.append(Part("Which claims survive", tables=[(told, shown)], folded=folded))
    return section
