"""`repro.results`, `repro.compare`: finished runs of workspace and reference as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from repro.core.errors import InputError, unknown_name
from repro.records import catalogue, comparison, tidy
from repro.records.selection import chosen

UNFINISHED = "unfinished"  # a table beside those of `repro.records.tidy`


def results(paper: str | None = None, where: str | Sequence[str] = (), table: str = "runs") -> pd.DataFrame:
    """Finished runs, a row each; `origin` is `workspace` for your runs and `reference` for committed ones.

    paper  None: all papers
    where  conditions such as "workers=4", "step_s<0.1", "strategy!=dsync"
    table  runs, points (evaluations), rows (of probes) or intervals (of traced steps); unfinished: runs that were cut
           off, which have no result

    `repro.records.tidy` documents columns and units. InputError for a paper without runs, an invalid condition or an
    unknown table.
    """
    if table not in (tables := (*tidy.TABLES, UNFINISHED)):
        raise unknown_name("table", table, tables)
    where, papers = [where] if isinstance(where, str) else where, catalogue.papers(paper)
    if table == UNFINISHED:
        return chosen(catalogue.unfinished_table(catalogue.unfinished_runs(paper)), where)
    return chosen(catalogue.table(table, [run for one in papers for run in catalogue.runs(one)]), where)


def compare(first: str, second: str, paper: str | None = None, where: str | Sequence[str] = ()) -> pd.DataFrame:
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
