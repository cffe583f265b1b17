"""The page's part on the network: Figure 8 (a message), Figure 9 and Table I (collectives)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.reports import tables
from repro.reports.gtopk import figure_network, frames_network
from repro.reports.gtopk.experiments import FIG8, FIG9, PAPER, SWEEP_KINDS
from repro.reports.gtopk.experiments import files as files_of
from repro.reports.gtopk.published import Published
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.probes import ProbeGroup
from repro.reports.section_timing import finding
from repro.reporting.stats import ALPHA, DASH
from repro.reports.verdicts import Verdict

Groups = Mapping[str, Sequence[ProbeGroup]]  # kind -> groups, a testbed each


def start(title: str, text: str, experiment: str, groups: Mapping) -> Section:
    """A section with the lines that say what has not been run."""
    missing = [unrun(experiment)]
    if groups:
        missing = [unrun(experiment, kind) for kind in SWEEP_KINDS[experiment] if kind not in groups]
    return Section(title, experiment, " ".join([text, *missing]))


def unrun(experiment: str, kind: str = "") -> str:
    """What stands where there are no results: every command that would make some."""
    return not_run("`, `repro run ".join(f"{PAPER}/{file}" for file in files_of(experiment, kind)), kind)


def every(groups: Groups) -> list[ProbeGroup]:
    return [group for some in groups.values() for group in some]


def places(groups: Groups) -> str:
    """`measured on cpu-2core-..., shaped/1g; simulated, modelled: paper/gtopk`"""
    found = [
        f"{kind} on {tables.hardware(group)}, {group.first['testbed']}"
        if kind == "measured"
        else f"{kind}, {tables.hardware(group)}"
        for kind, some in groups.items()
        for group in some
    ]
    return "; ".join(found)


def loud(text: str) -> str:
    """The kinds in capitals, for titles."""
    return text.replace("measured on", "MEASURED on").replace("simulated,", "SIMULATED,")


def bold(text: str) -> str:
    """The kinds in bold, for captions."""
    return text.replace("measured on", "**measured** on").replace("simulated,", "**simulated**,")


def messages(groups: Groups, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Figure 8: time of a message against its size, with the fit of alpha and beta."""
    text = (
        "Time of one message between two workers: mean and deviation of five runs and the fitted line, beside the "
        "paper's alpha and beta (its points are in the figure only)."
    )
    section = start("Figure 8", text, FIG8, groups)
    if found := every(groups):
        points, fits = frames_network.messages(found, paper), frames_network.fits(found, paper)
        title = f"Figure 8, time of a message {DASH} {loud(places(groups))}"
        caption = f"Time of a message against its size, {bold(places(groups))}; lines: fit, and the **paper**'s."
        figure = figure_network.messages(points, fits, title)
        picture = files.picture(figure, "fig8", "Figure 8", caption, {"points": points})
        table = files.table(fits, "fits", ["kind", "network"])
        section.parts.append(Part(picture=picture, tables=[("Fitted alpha and beta:", table)]))
    section.parts.append(finding(verdicts, FIG8, files))
    return section


def collectives(groups: Groups, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Figure 9: Table I's formulas as lines, the collectives as marks."""
    text = (
        "The paper draws Table I's formulas with its alpha and beta. The same formulas as lines, and the collectives "
        "themselves, run, as marks: on the virtual network with that alpha and beta, and on real links, whose alpha "
        "and beta are their own. The caption says 32 workers for the right panel and the text 64: both."
    )
    section = start("Figure 9", text, FIG9, groups)
    if found := every(groups):
        table = frames_network.collectives(found, paper)
        title = f"Figure 9, collectives {DASH} {loud(places(groups))}"
        caption = (
            "Time of the collectives against workers and against the gradient's bytes. Lines: Table I with the "
            f"**paper**'s alpha and beta; marks: run, {bold(places(groups))}."
        )
        figure = figure_network.collectives(table, paper, title)
        section.parts.append(Part(picture=files.picture(figure, "fig9", "Figure 9", caption, {"collectives": table})))
    section.parts.append(finding(_of(verdicts, False), FIG9, files))
    return section


def table1(groups: Groups, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Table I: each formula against the collective run."""
    import pandas as pd

    text = (
        "Each formula against the collective run, with the alpha and beta of the network it ran on. k gradients of 8 "
        "bytes (the paper's 2k, its k in bytes). The formulas are for worlds that are powers of two; other worlds need "
        "up to a round more. `repro bench collective dense|topk|gtopk` runs one."
    )
    section = start("Table I", text, FIG9, groups)
    a = ALPHA
    formulas = pd.DataFrame(
        [
            ("DenseAllReduce", "O(m)", f"2(P-1){a} + 2(P-1)/P·mβ", "the same, m in bytes"),
            ("TopKAllReduce", "O(kP)", f"log2(P){a} + 2(P-1)kβ", f"log2(P){a} + 8(P-1)kβ; ring: (P-1)({a} + 8kβ)"),
            ("gTopKAllReduce", "O(k log2 P)", f"2 log2(P){a} + 4k log2(P)β", f"2 log2(P){a} + 16k log2(P)β"),
        ],
        columns=["algorithm", "complexity", "time cost, paper", "here: k elements of 8 bytes"],
    )
    shown = files.table(formulas, "table1-formulas", list(formulas.columns))
    section.parts.append(Part(tables=[("Formulas:", shown)]))
    if found := every(groups):
        table = frames_network.collectives(found, paper)
        checked = files.table(frames_network.table1(table), "table1", ["kind", "testbed", "algorithm"])
        each = files.table(frames_network.each(table), "table1-each", ["kind", "testbed", "algorithm"])
        inner = Part(text=f"Every collective, {bold(places(groups))}.", tables=[("", each)])
        section.parts.append(
            Part(
                tables=[(f"Time run over formula, {bold(places(groups))}; median [least{DASH}most]:", checked)],
                folded=[("Every collective", inner)],
            )
        )
    section.parts.append(finding(_of(verdicts, True), "table1", files))
    return section


def _of(verdicts: Sequence[Verdict], of_table1: bool) -> list[Verdict]:
    return [v for v in verdicts if (v.claim.compute == "table1_ratio") == of_table1]
