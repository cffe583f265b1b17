"""The PipeDream page: every table, figure and claim of the paper; measured, simulated, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repro.reports import probes
from repro.reports.assembly import Built, Finder, Page, runs_of, standins
from repro.reports.loading import load
from repro.reports.page import Files, Section
from repro.reports.pipedream import (
    section_contradictions,
    section_measured,
    section_sizes,
    section_table1,
    section_timelines,
    section_training,
)
from repro.reports.pipedream.deviations import run_deviations
from repro.reports.pipedream.experiments import FIG8, MEMORY, PAPER, SHOWN, TIMELINES
from repro.reports.pipedream.experiments import files as files_of
from repro.reports.pipedream.published import Published
from repro.reports.pipedream.results import Results, finder, gather
from repro.reports.verdicts import Verdict

# The claims at the top of the page.
HEADLINES = (
    *(f"{row}-{what}" for row in ("vgg16-4a", "vgg16-8a", "vgg16-16a", "vgg16-8b", "inception-8a", "inception-8b",
                                  "s2vt-4a") for what in ("configuration", "over-bsp")),
    "alexnet-over-bsp", "resnet50-over-bsp", "reduction-most", "four-as-good-as-sixteen", "vgg16-overhead",
    "s2vt-overhead", "inception-overhead", "straight-4", "straight-8", "asp-slower", "stashing-critical",
    "vertical-sync-negligible", "measured-vgg-pipedream", "measured-alexnet-pipedream",
)  # fmt: skip


def build(results: Path | None, out: Path) -> Built:
    """(pages, other files, what the overview says): everything about PipeDream under `out`."""
    found, find = gathered(results)
    page = Page.of(PAPER, found, find, SHOWN, files_of, out)
    paper = Published(page.quoted)
    glance = page.glance(page.headlines(HEADLINES, _ours))
    sections = chapters(found, page.verdicts, paper, page.files)
    return page.write(sections, glance, run_deviations(found, paper), standins(found.used), runs_of(found))


def gathered(results: Path | None) -> tuple[Results, Finder]:
    """What the page shows, and which results speak to a claim."""
    found = gather(load(PAPER, results), probes.load(PAPER, results))
    return found, finder(found)


def chapters(found: Results, verdicts: Sequence[Verdict], paper: Published, files: Files) -> list[Section]:
    """The page's sections between the glance and the claims; `Page.write` brings them into the paper's order."""
    return [
        section_contradictions.section(paper, found, files),
        section_sizes.figure1(found, verdicts, files),
        section_timelines.timelines(found.training[TIMELINES.name], verdicts, files),
        section_sizes.figure5(found, paper, verdicts, files),
        section_timelines.figure8(found.training[FIG8.name], verdicts, files),
        section_table1.table1(found, paper, verdicts, files),
        section_training.figures(found, paper, verdicts, files),
        section_table1.figure13(found, paper, verdicts, files),
        section_training.versions(found, verdicts, files),
        section_measured.measured(found, verdicts, files),
        section_measured.schedules(found, files),
        section_measured.memory(found.training[MEMORY.name], verdicts, files),
        section_sizes.configurations(found, paper, files),
        section_sizes.what_if(found, files),
    ]


def _ours(verdict: Verdict) -> str:
    """A configuration is told as it is, not how well it agrees; a speed-up over one of several with what it is over."""
    if verdict.claim.compute == "row_configuration":
        return verdict.note
    several = isinstance(verdict.claim.arguments.get("over"), list)
    return f"{verdict.ours_text}, {verdict.note}" if several else verdict.ours_text
