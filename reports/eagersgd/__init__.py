"""The eager-SGD page: every table, figure and claim of the paper; measured, simulated, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repro.reports import probes
from repro.reports.assembly import Built, Finder, Page, runs_of, standins
from repro.reports.eagersgd import (
    section_collectives,
    section_contradictions,
    section_guarantees,
    section_imbalance,
    section_training,
)
from repro.reports.eagersgd.deviations import run_deviations
from repro.reports.eagersgd.experiments import FIG2_LENGTHS, FIG9, PAPER, SHOWN
from repro.reports.eagersgd.experiments import files as files_of
from repro.reports.eagersgd.published import Published
from repro.reports.eagersgd.results import Results, finder, gather
from repro.reports.loading import load
from repro.reports.page import Files, Section
from repro.reports.verdicts import Verdict

# The claims at the top of the page, one or more experiments each.
HEADLINES = (
    "solo-latency", "majority-latency", "solo-nap", "majority-nap",
    *(f"{what}-{ms}" for ms in (200, 300, 400) for what in ("hyperplane", "padded", "ratio")),
    "resnet50-300-deep500", "resnet50-460-deep500", "resnet50-300-horovod", "resnet50-460-horovod",
    "resnet50-weak-scaling", "resnet32-majority-speedup", "ucf101-solo-speedup", "ucf101-majority-speedup",
    "ucf101-majority-equal", "ucf101-horovod-weak", "ucf101-majority-weak",
)  # fmt: skip


def build(results: Path | None, out: Path) -> Built:
    """(pages, other files, what the overview says): everything about eager-SGD under `out`."""
    found, find = gathered(results)
    page = Page.of(PAPER, found, find, SHOWN, files_of, out)
    paper = Published(page.quoted)
    glance = page.glance(page.headlines(HEADLINES))
    sections = chapters(found, page.verdicts, paper, page.files)
    # of a testbed whose device one worker alone has otherwise, that of the others is shown
    runs = sorted(runs_of(found), key=lambda run: run["workers"] > 1)
    return page.write(sections, glance, run_deviations(found.training, paper), standins(found.used), runs)


def gathered(results: Path | None) -> tuple[Results, Finder]:
    """What the page shows, and which results speak to a claim."""
    found = gather(load(PAPER, results), probes.load(PAPER, results))
    return found, finder(found)


def chapters(found: Results, verdicts: Sequence[Verdict], paper: Published, files: Files) -> list[Section]:
    """The page's sections between the glance and the claims; `Page.write` brings them into the paper's order."""
    return [
        section_contradictions.section(paper, found.probes[FIG2_LENGTHS], files),
        section_imbalance.table1(paper, found, files),
        section_imbalance.figure2(found, paper, verdicts, files),
        *section_imbalance.figure34(found, paper, verdicts, files),
        section_collectives.figure9(found.probes[FIG9], paper, verdicts, files),
        *section_training.figures(found, paper, verdicts, files),
        section_guarantees.rounds(found, verdicts, files),
        section_guarantees.quorum(found, verdicts, files),
        section_guarantees.beyond(found, verdicts, files),
    ]
