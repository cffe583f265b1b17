"""The gTop-k page: every table, figure and claim of the paper; measured, simulated, and the paper's own time model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.reports import probes
from repro.reports.assembly import Built, Finder, Page, runs_of, standins
from repro.reports.groups import Group
from repro.reports.gtopk import section_convergence, section_network, section_scaling
from repro.reports.gtopk.deviations import run_deviations
from repro.reports.gtopk.experiments import FIG8, FIG9, PAPER, SHOWN
from repro.reports.gtopk.experiments import files as files_of
from repro.reports.gtopk.published import published
from repro.reports.gtopk.results import Results, finder, gather
from repro.reports.loading import load
from repro.reports.page import Files, Section
from repro.reports.scaling import MODELS
from repro.reports.stats import DASH
from repro.reports.verdicts import Verdict

if TYPE_CHECKING:
    import pandas as pd


def build(results: Path | None, out: Path) -> Built:
    """(pages, other files, what the overview says): everything about gTop-k under `out`."""
    found, find = gathered(results)
    page = Page.of(PAPER, found, find, SHOWN, files_of, out)
    data = section_scaling.collect(found, published(page.quoted))
    known = page.files.table(speedups(data), "speedups", ["model", "over"])
    glance = page.glance(
        "Speed-up of gTop-k S-SGD with 32 workers (Table VII), from three sources that do not agree (next section):",
        known,
    )
    trained = [group for group in found.used if isinstance(group, Group)]
    sections = chapters(found, page.verdicts, data, page.files)
    return page.write(sections, glance, run_deviations(found.training), standins(trained), runs_of(found))


def gathered(results: Path | None) -> tuple[Results, Finder]:
    """What the page shows, and which results speak to a claim."""
    found = gather(load(PAPER, results), probes.load(PAPER, results))
    return found, finder(found)


def chapters(
    found: Results, verdicts: Sequence[Verdict], data: section_scaling.Efficiency, files: Files
) -> list[Section]:
    """The page's sections between the glance and the claims; `Page.write` brings them into the paper's order."""

    def about(name: str) -> list[Verdict]:
        return [verdict for verdict in verdicts if verdict.claim.experiment == name]

    network, scaling, curves = section_network, section_scaling, section_convergence
    return [
        scaling.contradictions(data, verdicts, files),
        network.table1(found.sweeps[FIG9], data.paper, about(FIG9), files),
        *curves.figures(found.training, verdicts, files),
        network.messages(found.sweeps[FIG8], data.paper, about(FIG8), files),
        network.collectives(found.sweeps[FIG9], data.paper, about(FIG9), files),
        scaling.figure10(data, verdicts, files),
        scaling.table7(data, found, verdicts, files),
        scaling.figure11(data, found, verdicts, files),
        curves.conservation(found.training, verdicts, files),
        curves.beyond(found.training, verdicts, files),
    ]


def speedups(data: section_scaling.Efficiency) -> pd.DataFrame:
    """A row a model and baseline: the paper's printed number, its time model's, ours simulated."""
    import pandas as pd

    from repro.reports.stats import TIMES, number

    rows = []
    for model in MODELS:
        for over in ("Dense", "Top-k"):
            line = {"model": model, "over": over, "paper": f"{data.paper.ratios[model, over]:g}{TIMES}"}
            for source, steps in data.sources.items():
                if source != "paper":
                    value = steps.speedup(model, "gTop-k", over, 32)
                    line[source] = DASH if value is None else number(value) + TIMES
            rows.append(line)
    return pd.DataFrame(rows)
