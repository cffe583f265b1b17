"""The page of baselines: common libraries beside our own strategies in the same experiments."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from repro.answers.figures.specs import Specs
from repro.answers.pages import provenance
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.render import template, write_page
from repro.records import catalogue
from repro.records.filters import select_rows
from repro.records.record import Found
from repro.records.run_columns import run_row
from repro.records.tables import make_frame
from repro.records.variants import newest, of_one_machine

PAGE = "baselines"
BASE, PLACE = "D-Sync", ["experiment", "testbed", "scale"]
MADE_WITH = ("network", "results", "runs", "seed", "data set", "hardware", "commit", "finished")


def build(results: Path | None, files: Files) -> tuple[list[Path], str]:
    """(pages, a line for the overview)"""
    shown = [run for run in catalogue.runs(PAGE, results) if run.identity.trains and not run.identity.breakdown]
    shown = newest(shown, of_one_machine)
    table = run_table(shown)
    tables = {"runs": table, "provenance": provenance.table(provenance.group_by(PLACE, shown), MADE_WITH)}
    specs = Specs(PAGE, files, lambda shown: tables[shown.table])
    line = Markdown(f"No results yet: `repro run {PAGE}`.")
    if shown:
        line = Markdown(f"{table['variant'].nunique()} variants, theirs and ours, of the same training.")
    text = template(f"{PAGE}/page.md.j2", figure=specs.figure, table=specs.table, line=line)
    return write_page(text, PAGE, files), line


def run_table(runs: list[Found]) -> pd.DataFrame:
    """A row a run: times in milliseconds; `over`: the speed-up over D-Sync on the same testbed and scale."""
    table = make_frame([run_row(run) for run in runs])
    if not runs:
        return table
    table["step_ms"], table["exposed_ms"] = 1e3 * table["step_s"], 1e3 * table["exposed_s"]
    table["sent_kb"], table["by"] = table["bytes_sent"] / 1e3, table["launcher"] + ", " + table["fabric"]
    base = select_rows(table, {"variant": BASE}).groupby(PLACE)["step_ms"].median().rename("base")
    table = table.join(base, on=PLACE)
    table["over"] = table["base"] / table["step_ms"]
    return table.sort_values([*PLACE, "strategy", "variant"])
