"""`repro.results`, `repro.compare`: finished runs of workspace and reference as DataFrames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from repro.core import own_code
from repro.core.errors import InputError, some_of, unknown_name
from repro.core.paths import results_root
from repro.records import catalogue, comparison, reference, unfinished
from repro.records.filters import Condition, Where, check_numbers, list_column, parse_conditions, select_rows
from repro.records.kept import unfinished_runs
from repro.records.run_columns import COLUMNS, ENTRIES, Group
from repro.records.store import run_folders
from repro.records.tables import OF_RUN, TABLES, build_table, make_frame
from repro.records.unfinished import Unfinished
from repro.records.variants import Labelled

Names = Mapping[tuple[str, str], set[str]]  # (paper, experiment) -> names of its runs, each a variant's or a strategy
UNFINISHED = "unfinished"  # a table beside those of `repro.records.tables`


def results(paper: str | None = None, where: Where = (), table: str = "runs") -> pd.DataFrame:
    """Finished runs, a row each; `origin` is `workspace` for your runs and `reference` for committed ones.

    paper  a paper, or PAPER/EXPERIMENT; None: all papers
    where  conditions such as "workers=4", ["step_s<0.1", "strategy!=dsync"] or {"workers": [4, 8], "seed": 0}
    table  runs, points (evaluations), rows (of probes) or intervals (of traced steps); unfinished: runs that were cut
           off, which have no result

    `repro.records.run_columns` documents columns and units. InputError for a paper or experiment without runs, an
    invalid condition, a text that no run has in its column, or an unknown table.
    """
    if table not in (tables := (*TABLES, UNFINISHED)):
        raise unknown_name("table", str(table), tables)
    if paper == "":
        raise InputError("paper '': must be a paper, or PAPER/EXPERIMENT; None for all")
    where = parse_conditions(where)  # before records are read
    name, _, experiment = str(paper or "").partition("/")
    papers = catalogue.papers(name or None)
    if table == UNFINISHED:
        cut_off = unfinished_runs(name or None)
        shown = [(origin, run) for origin, run in cut_off if experiment in ("", run.identity.experiment)]
        return select_rows(unfinished_table(shown), where)
    check_columns(where, table, papers)
    if experiment and experiment not in (known := experiments_of(name)):
        raise unknown_name(f"experiment of {name} with results", experiment, known)
    only = [experiment] if experiment else None
    return select_known(build_table(table, [run for each in papers for run in catalogue.runs(each, None, only)]), where)


def experiments_of(paper: str) -> set[str]:
    """The experiments of a paper with finished runs, without reading the records."""
    published = reference.column_values(paper, ["experiment"])
    return published | {folder.parent.name for folder in run_folders(results_root(), paper)}


def select_known(table: pd.DataFrame, where: Sequence[Condition]) -> pd.DataFrame:
    """The rows under conditions; InputError for a text that no run has in its column."""
    for each in where:
        check_known(each, lambda column: {*list_column(table, column)})
        if each.values == (None,) and None not in list_column(table, each.column):
            raise InputError(f"where {each}: no run lacks a value there; must be a value, or several in a list")
    return select_rows(table, where)


def check_columns(where: Sequence[Condition], table: str, papers: Sequence[str]) -> None:
    """InputError for a column that no run has, and for a text as the value of a column of numbers; reads only the
    records of papers with runs in the workspace."""
    names = {name for column in COLUMNS for name in ([] if isinstance(column, Group) else [column.name])}
    names |= {*OF_RUN, *Labelled._fields, *ENTRIES}
    groups = tuple(column.name for column in COLUMNS if isinstance(column, Group) and column.name)
    check_values([each for each in where if each.column in names or not any(map(has_own_runs, papers))], table, papers)
    # a column of this version's that the published tables do not have yet is searched in the records
    if all(each.column in names or each.column.startswith(groups) for each in where):
        return
    for paper in papers:
        mine = has_own_runs(paper)
        columns = build_table(table, catalogue.runs(paper)).columns if mine else reference.column_types(paper, table)
        names |= {*columns}
    for each in where:
        if each.column not in names and not each.column.startswith(groups):
            raise unknown_name("column", each.column, sorted(names - {"record"}), all_of="repro results --csv")


def check_values(where: Sequence[Condition], table: str, papers: Sequence[str]) -> None:
    """InputError for a text as the value of a column that holds numbers in all published tables that have it, and for
    a value that no published run has, if there are no others."""
    from pyarrow import types

    if not where:
        return
    published = [reference.column_types(paper, table) for paper in papers]
    for each in where:
        kinds = [columns[each.column] for columns in published if each.column in columns]
        numeric = [types.is_integer(kind) or types.is_floating(kind) for kind in kinds if not types.is_null(kind)]
        if numeric and all(numeric):
            check_numbers(each)
        elif kinds and each.column not in Labelled._fields and not any(map(has_own_runs, papers)):
            check_known(each, lambda column: known_values(papers, table, column))


def known_values(papers: Sequence[str], table: str, column: str) -> set[Any]:
    """The values of a column in a published table of the papers that have it."""
    having = [paper for paper in papers if column in reference.column_types(paper, table)]
    return {value for paper in having for value in reference.column_values(paper, [column], table)}


def check_known(condition: Condition, values_of: Callable[[str], set[Any]]) -> None:
    """InputError with the nearest values if a column of texts has none of those that a condition wants."""
    if condition.comparison != "=" or not all(isinstance(value, str) for value in condition.values):
        return
    known = values_of(condition.column) - {None}
    if known and all(isinstance(value, str) for value in known) and known.isdisjoint(condition.values):
        name = f"{condition.column} with results"
        raise unknown_name(name, str(condition.values[0]), known, all_of="repro results --csv")


def has_own_runs(paper: str) -> bool:
    """Whether the workspace has finished runs of a paper."""
    return any(True for _ in run_folders(results_root(), paper))


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
    where = parse_conditions(where)  # before records are read
    name, _, experiment = str(paper or "").partition("/")
    papers = catalogue.papers(name or None)
    own = {(each, at): having for each in papers for at, having in own_names(each).items()}
    names = merge_names(own, papers)
    known = {side for having in names.values() for side in having}
    files = {own_code.declared_name(each): each for each in known if own_code.is_place(each)}
    first, second = (files.get(side, side) if side not in known else side for side in (first, second))
    check_sides((first, second), known)
    if experiment and (name, experiment) not in names:
        raise unknown_name(f"experiment of {name} with results", experiment, {at for _, at in names})
    check_columns(where, "runs", papers)
    met = merge_names(own, papers, where) if where else names
    met = {at: having for at, having in met.items() if experiment in ("", at[1])}
    both = [at for at, having in met.items() if {first, second} <= having]
    if not both:
        return comparison.no_pairs(why_apart((first, second), met, where))
    runs = [run for each in papers for run in catalogue.runs(each, experiments=[at for of, at in both if of == each])]
    return comparison.compare(select_known(build_table("runs", runs), where), first, second)


def why_apart(sides: Sequence[str], names: Names, where: Sequence[Condition]) -> str:
    """Why no experiment has both. names: of the runs that meet the conditions."""
    at = {side: ["/".join(place) for place, having in names.items() if side in having] for side in sides}
    under = f" with {', '.join(map(str, where))}" if where else ""
    if lacking := [side for side in sides if not at[side]]:
        return f"there are no runs of {' or '.join(lacking)}{under}"
    return "; ".join(f"{side} has runs{under} in {some_of(places)}" for side, places in at.items())


def merge_names(own: Names, papers: Sequence[str], where: Sequence[Condition] = ()) -> Names:
    """The names of finished runs: of one's own, and of the published ones under conditions."""
    names: dict[tuple[str, str], set[str]] = defaultdict(set, {at: {*having} for at, having in own.items()})
    for paper in papers:
        for experiment, having in published_names(paper, where).items():
            names[paper, experiment] |= having
    return names


def published_names(paper: str, where: Sequence[Condition]) -> dict[str, set[str]]:
    """The names of a paper's published runs by experiment, without those that do not meet the conditions on columns of
    their table."""
    names: dict[str, set[str]] = defaultdict(set)
    stored = reference.column_types(paper, "runs")
    where = [each for each in where if each.column in stored and each.column not in (*Labelled._fields, "origin")]
    named = ["experiment", *(column for column in comparison.NAMES if column in stored)]
    columns = [*dict.fromkeys([*named, *(each.column for each in where)])]
    published = make_frame(reference.table_columns(paper, columns).to_pylist(), columns)
    for row in select_rows(published, where)[named].to_dict("records"):
        names[row.pop("experiment")] |= {*row.values()}
    return names


def own_names(paper: str) -> dict[str, set[str]]:
    """The names of the workspace's finished runs of a paper by experiment."""
    names: dict[str, set[str]] = defaultdict(set)
    for run in catalogue.runs(paper, results_root()) if has_own_runs(paper) else ():
        names[run.identity.experiment] |= {run.label, run.identity.variant, run.identity.strategy.name}
    return names


def check_sides(names: Sequence[str], known: set[str]) -> None:
    """InputError for a side of a comparison that is none of the variants and strategies with runs."""
    for name in names:
        if name not in known:
            raise unknown_name("variant or strategy with results", str(name), known, all_of="repro results")
