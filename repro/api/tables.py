"""`repro.results`, `repro.compare`: finished runs as DataFrames, those of the workspace and those of the reference."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from repro.core.errors import InputError, unknown
from repro.records import catalogue, comparison, tidy
from repro.records.selection import chosen


def results(paper: str | None = None, where: str | Sequence[str] = (), table: str = "runs") -> pd.DataFrame:
    """Finished runs, a row each; `origin` says whether a run is yours (`workspace`) or committed (`reference`).

    paper  None: all
    where  conditions such as "workers=4", "step_s<0.1", "strategy!=dsync"
    table  runs, or what runs have: points (evaluations), rows (what probes found), intervals (of traced steps)

    Seconds, bytes and samples as `repro.records.tidy` says. InputError for a paper without runs, and for a condition
    or table that there is not.
    """
    if table not in tidy.TABLES:
        raise unknown("table", table, tidy.TABLES)
    found = [run for one in catalogue.papers(paper) for run in catalogue.runs(one)]
    return chosen(catalogue.table(table, found), [where] if isinstance(where, str) else where)


def compare(first: str, second: str, paper: str | None = None, where: str | Sequence[str] = ()) -> pd.DataFrame:
    """Two variants or strategies wherever both were run: medians over seeds, and the time of the first over that of the
    second (`A / B`).

    paper, where: as of `results`. InputError for a name that has no runs.
    """
    if first == second:
        raise InputError(f"compare: {first} is given twice; must be two variants or strategies")
    runs = results(paper, where)
    for name in (first, second):
        if name not in (known := {*runs["variant"], *runs["strategy"]}):
            raise unknown("variant or strategy with results", name, known, most=5, all_of="repro results")
    return comparison.compare(runs, first, second)
