"""The iBatch page: every table, figure and claim of the paper; measured, simulated, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repro.reports import probes
from repro.reports.assembly import Built, Finder, Page, runs_of, standins
from repro.reports.groups import Group
from repro.reports.ibatch import section_case, section_contradictions, section_gap, section_measured, section_scaling
from repro.reports.ibatch.deviations import run_deviations
from repro.reports.ibatch.experiments import PAPER, SHOWN
from repro.reports.ibatch.experiments import files as files_of
from repro.reports.ibatch.published import Published
from repro.reports.ibatch.results import Results, finder, gather
from repro.reports.loading import load
from repro.reports.page import Files, Section
from repro.reports.verdicts import Verdict

# The claims at the top of the page.
_LARGEST = ("vgg19-22k-72-ibatch", "vgg19-22k-72-default", "vgg19-22k-72-layerwise", "improvement-over-default",
            "improvement-over-layerwise")  # fmt: skip
_MEDIUM = tuple(f"{name}-30-ibatch" for name in ("googlenet", "inception", "vgg19", "vgg19-22k"))
_REST = ("linear-to-6", "best-of-three-30", "best-of-three-72", "sparsified-inception", "sparsified-vgg19")
HEADLINES = (
    *(*_LARGEST, *_MEDIUM, *_REST),
    # the default's speed-up on 72 nodes is what the implied testbed is made from
    *(f"{name}-implied" for name in (*_LARGEST, *_MEDIUM, *_REST) if name != "vgg19-22k-72-default"),
    *("never-below-exact", "greedy-near-exact", "random-optimal"),
    *(f"measured-{name}-{what}" for name in ("vgg", "googlenet") for what in ("over-default", "over-layerwise",
                                                                              "weights")),
)  # fmt: skip


def build(results: Path | None, out: Path) -> Built:
    """(pages, other files, what the overview says): everything about iBatch under `out`."""
    found, find = gathered(results)
    page = Page.of(PAPER, found, find, SHOWN, files_of, out)
    paper = Published(page.quoted)
    glance = page.glance(page.headlines(HEADLINES))
    sections = chapters(found, page.verdicts, paper, page.files)
    trained = [group for group in found.used if isinstance(group, Group)]  # others compute nothing from data
    return page.write(sections, glance, run_deviations(found, paper), standins(trained), runs_of(found))


def gathered(results: Path | None) -> tuple[Results, Finder]:
    """What the page shows, and which results speak to a claim."""
    found = gather(load(PAPER, results), probes.load(PAPER, results))
    return found, finder(found)


def chapters(found: Results, verdicts: Sequence[Verdict], paper: Published, files: Files) -> list[Section]:
    """The page's sections between the glance and the claims; `Page.write` brings them into the paper's order."""
    return [
        section_contradictions.section(paper, found, files),
        section_case.figure3(found, verdicts, files),
        section_case.figure4(found, verdicts, files),
        section_scaling.figure5(found, paper, verdicts, files),
        section_scaling.figure6(found, paper, verdicts, files),
        section_scaling.figure7(found, verdicts, files),
        section_gap.greedy(found, verdicts, files),
        section_gap.predicted(found, files),
        section_measured.measured(found, verdicts, files),
        section_scaling.beyond(found, files),
        section_scaling.synchronisation(found, files),
    ]
