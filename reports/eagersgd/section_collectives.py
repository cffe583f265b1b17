"""The page's part on partial allreduce: Figures 8 and 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.reports import tables
from repro.reports.eagersgd import figure_collectives, frames_collectives
from repro.reports.eagersgd.experiments import FIG9, PAPER, PROBE_KINDS, files
from repro.reports.eagersgd.published import Published
from repro.reports.eagersgd.section_imbalance import about
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.probes import ProbeGroup
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH, TIMES, number
from repro.reports.verdicts import Verdict

TEXT = (
    "Figure 8's microbenchmark: ranks come linearly skewed to the collective, and the latency is the mean over ranks "
    "of the time from a rank's call to its return. Active processes are the initiator and those that came before it."
)


def figure9(groups: Mapping[str, ProbeGroup], paper: Published, verdicts: Sequence[Verdict], to: Files) -> Section:
    """Latency and NAP, measured and simulated, beside the paper's averages."""
    P = int(paper.value("Figure 9", "microbenchmark", "all", "processes"))
    of = frames_collectives.expected(P)
    limit = of["allreduce"]["wait"] / of["majority"]["wait"]
    skew = (
        f"Of the skew alone, with {P} ranks, majority could be {number(limit)}{TIMES} as fast as MPI_Allreduce and no "
        f"more (mean waits of {number(of['allreduce']['wait'])} and {number(of['majority']['wait'])} of the largest "
        f"skew), and {number(of['majority']['nap'])} ranks are there in time; solo's reduction is the skew over what "
        "the collective itself takes, so it says how large the skew was."
    )
    missing = [
        not_run("`, `repro run ".join(f"{PAPER}/{file}" for file in files(FIG9, kind)), kind)
        for kind in PROBE_KINDS[FIG9]
        if kind not in groups
    ]
    section = Section("Figure 9", FIG9, " ".join([TEXT, skew, *missing]))
    if groups:
        found = frames_collectives.latencies(groups)
        places = "; ".join(f"{kind.upper()}: {tables.hardware(group)}" for kind, group in groups.items())
        bold = "; ".join(f"**{kind}**: {tables.hardware(group)}" for kind, group in groups.items())
        caption = (
            "Latency of the collectives against message size (band: least and largest) and number of active "
            f"processes, {bold}. The **paper**'s averages are in the table."
        )
        drawn = figure_collectives.draw(frames_collectives.medians(found), f"Figure 9 {DASH} {places}")
        picture = to.picture(drawn, "fig9", "Figure 9", caption, {"latencies": found})
        table = to.table(frames_collectives.table(found, paper), "fig9", ["kind", "collective"])
        section.parts.append(Part(picture=picture, tables=[("In numbers, averages over the message sizes:", table)]))
    section.parts.append(finding(about(verdicts, FIG9), FIG9, to))
    return section
