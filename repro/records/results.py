"""`repro.results`, `repro.compare`: finished runs of workspace and reference as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from repro.core.errors import InputError, unknown_name
from repro.records import catalogue, comparison, unfinished
from repro.records.filters import Where, parse_conditions, select_rows
from repro.records.kept import unfinished_runs
from repro.records.tables import TABLES, build_table, make_frame
from repro.records.unfinished import Unfinished

UNFINISHED = "unfinished"  # a table beside those of `repro.records.tables`


def results(paper: str | None = None, where: Where = (), table: str = "runs") -> pd.DataFrame:
    """Finished runs, a row each; `origin` is `workspace` for your runs and `reference` for committed ones.

    paper  a paper, or PAPER/EXPERIMENT; None: all papers
    where  conditions such as "workers=4", ["step_s<0.1", "strategy!=dsync"] or {"workers": [4, 8], "seed": 0}
    table  runs, points (evaluations), rows (of probes) or intervals (of traced steps); unfinished: runs that were cut
           off, which have no result

    `repro.records.run_columns` documents columns and units. InputError for a paper or experiment without runs, an
    invalid condition or an unknown table.
    """
    if table not in (tables := (*TABLES, UNFINISHED)):
        raise unknown_name("table", table, tables)
    where = parse_conditions(where)  # before records are read
    name, _, experiment = str(paper or "").partition("/")
    papers = catalogue.papers(name or None)
    if table == UNFINISHED:
        cut_off = unfinished_runs(name or None)
        shown = [(origin, run) for origin, run in cut_off if experiment in ("", run.identity.experiment)]
        return select_rows(unfinished_table(shown), where)
    runs = [run for each in papers for run in catalogue.runs(each)]
    if experiment:
        if experiment not in (known := {run.identity.experiment for run in runs}):
            raise unknown_name(f"experiment of {name} with results", experiment, known)
        runs = [run for run in runs if run.identity.experiment == experiment]
    return select_rows(build_table(table, runs), where)


def unfinished_table(runs: Sequence[tuple[str, Unfinished]]) -> pd.DataFrame:
    """A row for each unfinished run. so_far: the metric at the last evaluation; no table of results has these runs."""
    rows = [{"origin": origin, "paper": run.identity.paper} | unfinished.row(run) for origin, run in runs]
    return make_frame(rows)


def compare(first: str, second: str, paper: str | None = None, where: Where = ()) -> pd.DataFrame:
    """Two variants or strategies where both have runs: medians over seeds, and the ratio of their times (`A / B`).

    first, second: a strategy, a variant's name in its experiment, or a label (column `variant` of `results`). paper,
    where: as for `results`. InputError for a name without runs.
    """
    if first == second:
        raise InputError(f"compare: {first} occurs twice; must be two variants or strategies")
    runs = results(paper, where)
    for name in (first, second):
        if name not in (known := {*runs["variant"], *runs["variant_name"], *runs["strategy"]}):
            raise unknown_name("variant or strategy with results", name, known, all_of="repro results")
    return comparison.compare(runs, first, second)
