"""How far simulated numbers can be trusted: observed step times beside those of the virtual twins."""

from __future__ import annotations

from pathlib import Path

from repro.reports import provenance
from repro.reports.files import Files
from repro.reports.render import template, write_page
from repro.reports.specs import Specs
from repro.reports.validation import emulated, tables

PAGE = "validation"
MADE_WITH = ("hardware", "results", "commit", "torch", "finished")


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    found = tables.load(results)
    steps, controls = tables.steps(found), emulated.load(results)
    made = {
        "steps": lambda: steps,
        "by experiment": lambda: tables.errors(steps, ["experiment"]),
        "by strategy": lambda: tables.errors(steps, ["strategy"]),
        "by size": lambda: tables.errors(steps, ["bytes"]),
        "worst": lambda: tables.worst(steps),
        "emulated": lambda: tables.errors(emulated.pairs(controls), ["experiment", "workers"]),
        "pairs": lambda: emulated.pairs(controls),
        "ratios": lambda: emulated.ratios(controls),
        "provenance": lambda: provenance.table(provenance.by(["experiment", "testbed", "launcher"], found), MADE_WITH),
    }
    specs = Specs(PAGE, files, lambda shown: made[shown.table]())
    line = sentence(tables.errors(steps, []).to_dict("records"))
    text = template(f"{PAGE}/page.md.j2", figure=specs.figure, table=specs.table, line=line,
                    misses=len(tables.worst(steps)), controls=len(controls), median=f"{tables.MEDIAN_GOAL:.0%}",
                    p95=f"{tables.P95_GOAL:.0%}")  # fmt: skip
    return write_page(text, PAGE, files), line


def sentence(every: list[dict]) -> str:
    """How far off simulated step times are, beside the goal."""
    if not every:
        return f"No results yet: `repro run {PAGE}` makes them."
    (row,) = every
    reached = "reached" if row["met"] == "yes" else "missed"
    return (
        f"Simulated step times are off by {row['median']:.1f} % in the median and {row['p95']:.1f} % in the 95th "
        f"percentile of {row['times']} cases; the goal of {tables.MEDIAN_GOAL:.0%} and {tables.P95_GOAL:.0%} is "
        f"{reached}."
    )
