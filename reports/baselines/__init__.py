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
from repro.records.record import Found
from repro.records.run_columns import run_row
from repro.records.tables import make_frame
from repro.records.variants import STRATEGY, but_strategy, machine_of, newest, of_one_machine, user_changes

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
    """A row a run: times in milliseconds; `over`: the speed-up over D-Sync on the same machine, all else equal."""
    table = make_frame([run_row(run) for run in runs])
    if not runs:
        return table
    table["step_ms"], table["exposed_ms"] = 1e3 * table["step_s"], 1e3 * table["exposed_s"]
    table["sent_kb"], table["by"] = table["bytes_sent"] / 1e3, table["launcher"] + ", " + table["fabric"]
    shared = but_strategy([run.identity for run in runs])
    places = pd.Series([(*alike, machine_of(run)) for alike, run in zip(shared, runs, strict=True)], table.index)
    base_ms = table["step_ms"].where([is_base(run) for run in runs]).groupby(places).median()
    table["over"] = places.map(base_ms) / table["step_ms"]
    return table.sort_values([*PLACE, "strategy", "variant"])


def is_base(run: Found) -> bool:
    """Whether a run is D-Sync as its experiment has it."""
    return run.identity.variant == BASE and not any(path.startswith(STRATEGY) for path in user_changes(run.identity))
