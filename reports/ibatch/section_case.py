"""The page's part on the case study: Figure 3 (times of layers) and Figure 4 (three procedures)."""

from __future__ import annotations

from collections.abc import Sequence

from repro.reports import tables
from repro.reports.ibatch import figure_case, frames_case
from repro.reports.ibatch.experiments import FIG3, IMPLIED, PAPER
from repro.reports.ibatch.results import Results
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.probes import ProbeGroup
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict, about

OF_FIGURE4 = ("case-over", "case-batches", "case-startup")  # begin its claims' names


def testbeds(found: Results, name: str) -> list[tuple[str, ProbeGroup]]:
    """(name, group) on the testbed of assumptions and on the implied one, as far as there are results."""
    return [(one, found.sweeps[one]) for one in (name, name + IMPLIED) if one in found.sweeps]


def heading(name: str) -> str:
    """Which testbed a part is of."""
    return "The implied testbed" if name.endswith(IMPLIED) else "The testbed"


def note(name: str) -> str:
    """What must stand in the title of a figure of the implied testbed."""
    return " (IMPLIED testbed: computation from the paper's 26x)" if name.endswith(IMPLIED) else ""


def figure3(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Bars a layer."""
    text = (
        "GoogLeNet in twelve layers on 6 workers and 6 servers: what a pull of each layer alone takes, and its forward "
        "computation, from the profile that the run measured on its fabric before training."
    )
    groups = testbeds(found, FIG3)
    section = Section("Figure 3", FIG3, text if groups else f"{text} {not_run(f'{PAPER}/{FIG3}')}")
    for name, group in groups:
        frame, place = frames_case.layers(group), tables.hardware(group)
        if not len(frame):
            section.parts.append(Part(heading(name), f"No run on {place} has a profile."))
            continue
        title = f"Figure 3, times of GoogLeNet's layers {DASH} SIMULATED: {place}{note(name)}"
        caption = f"Communication and forward computation of each layer, **simulated** ({place})."
        drawn = figure_case.layers(frame, title)
        picture = files.picture(drawn, name, "Figure 3", caption, {"layers": frame})
        shown = files.table(frames_case.layer_table(frame), f"layers-{name}", ["name"])
        inner = Part(tables=[(f"**simulated** ({place}):", shown)])
        section.parts.append(Part(heading(name), picture=picture, folded=[("In numbers", inner)]))
    mine = [v for v in about(verdicts, FIG3, FIG3 + IMPLIED) if not v.claim.id.startswith(OF_FIGURE4)]
    section.parts.append(finding(mine, FIG3, files))
    return section


def figure4(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Three timelines from recorded intervals."""
    text = (
        "The first iteration of one worker as it was recorded, a panel a mode; numbers are layers. A pull's startup is "
        "drawn apart where the testbed has one. Later iterations look the same, but a pull then waits at the servers "
        "for other workers' gradients. The paper's batches are [1, 5], [6, 10], [11, 12]."
    )
    groups = testbeds(found, FIG3)
    section = Section("Figure 4", FIG3, text if groups else f"{text} {not_run(f'{PAPER}/{FIG3}')}")
    for name, group in groups:
        frame, place = frames_case.timeline(group), tables.hardware(group)
        part = Part(heading(name), "" if len(frame) else f"No intervals were recorded on {place}.")
        if len(frame):
            title = f"Figure 4, communication and computation of GoogLeNet {DASH} SIMULATED: {place}{note(name)}"
            caption = f"Recorded intervals of the first worker, **simulated** ({place})."
            drawn = figure_case.timelines(frame, title)
            traces = {mode: frames_case.chrome(group, mode) for mode in dict.fromkeys(frame["mode"])}
            stem = name.replace(FIG3, "fig4")
            part.picture = files.picture(drawn, stem, "Figure 4", caption, {"intervals": frame}, traces)
        shown = files.table(frames_case.procedures(group), f"procedures-{name}", ["batches"])
        told = (
            f"**simulated** ({place}), mean over the workers. *Predicted*: by the pipeline model from the profile; "
            "*EXETime*: equation (4); *least possible*: over all batches."
        )
        part.tables.append((told, shown))
        section.parts.append(part)
    mine = [v for v in about(verdicts, FIG3, FIG3 + IMPLIED) if v.claim.id.startswith(OF_FIGURE4)]
    section.parts.append(finding(mine, "fig4", files))
    return section
