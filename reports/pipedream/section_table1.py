"""The page's part on throughput: Table 1 and Figure 13."""

from __future__ import annotations

from collections.abc import Sequence

from repro.reports import tables
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.pipedream import figure_bars, frames_table1
from repro.reports.pipedream.experiments import ACCURACY, PAPER, TABLE_1
from repro.reports.pipedream.published import Published
from repro.reports.pipedream.results import Results
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict, about

OF_FIGURE13 = ("model-parallel-", "straight-", "pipedream-over-straight-")  # begin its claims' names


def unrun(rows: Sequence[str]) -> str:
    return " ".join(not_run(f"{PAPER}/{name}", "simulated") for name in rows)


def table1(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Table 1 with ours under each row, as bars, and in every detail."""
    runs = found.table1
    text = (
        f"Time of an iteration at full size on the modelled clusters ({frames_table1.clusters()}), minibatch 32 a "
        "machine (S2VT 80); speed-ups are of samples a second. *Configuration found*: by `cost_model: paper` from a "
        "profile of the modelled machine; *printed*: the paper's, cut where that cost model is least. AlexNet and "
        f"ResNet-50 stand in section 5.2 alone. {unrun(frames_table1.missing(runs))}"
    )
    section = Section("Table 1", TABLE_1, text.strip())
    table = frames_table1.table1(runs, paper)
    shown = files.table(table, "table1", ["model", "machines", "cluster", "source", "configuration"])
    picture = None
    if runs and len(bars := frames_table1.bars(runs, paper)):
        place = tables.hardware(found.sweeps[TABLE_1])
        title = f"Table 1, speed-up over one machine {DASH} SIMULATED ({place}); PAPER"
        caption = f"Speed-up over one machine, **simulated** ({place}), and the **paper**'s where it prints one."
        drawn = figure_bars.table1(bars, title)
        picture = files.picture(drawn, "table1", "Table 1 as bars", caption, {"speed-ups": bars})
    part = Part(picture=picture, tables=[("", shown)])
    if runs:
        details = frames_table1.details(runs)
        left = ["setting", "configuration", "cut before block"]
        inner = Part(tables=[("*Sent*: by all machines together.", files.table(details, "table1-details", left))])
        part.folded.append(("Every variant of every row", inner))
    section.parts.append(part)
    mine = [v for v in about(verdicts, TABLE_1) if not v.claim.id.startswith(OF_FIGURE13)]
    section.parts.append(finding(mine, "table1", files))
    return section


def figure13(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Model parallelism, straight pipeline and PipeDream for VGG16 on cluster A."""
    runs = found.table1
    text = (
        "VGG16 on cluster A: what pipelining is worth over model parallelism, and what replicated stages are worth "
        "over a straight pipeline. The paper's bar of model parallelism could not be read (\"slower than the single "
        'machine").'
    )
    rows = [name for name in ("table1-vgg16-4a", "table1-vgg16-8a") if name in frames_table1.missing(runs)]
    # of Table 1's runs, but behind Figures 10 to 12
    section = Section("Figure 13", ACCURACY.name, f"{text} {unrun(rows)}".strip())
    bars = frames_table1.figure13(runs, paper) if runs else None
    there = [n for n, own in bars.groupby("machines") if own["simulated"].notna().any()] if runs else []
    if there:
        place = tables.hardware(found.sweeps[TABLE_1])
        title = f"Figure 13, VGG16 on cluster A {DASH} SIMULATED; PAPER"
        caption = f"Speed-up over one machine, **simulated** ({place}), and the **paper**'s."
        drawn = figure_bars.figure13(bars[bars["machines"].isin(there)], title)
        picture = files.picture(drawn, "fig13", "Figure 13", caption, {"speed-ups": bars})
        shown = files.table(frames_table1.figure13_table(bars), "fig13", ["approach", "configuration"])
        section.parts.append(Part(picture=picture, tables=[("", shown)]))
    mine = [v for v in about(verdicts, TABLE_1) if v.claim.id.startswith(OF_FIGURE13)]
    section.parts.append(finding(mine, "fig13", files))
    return section
