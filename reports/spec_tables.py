"""The tables that figures and tables of a page are made from: tidy tables of what the page shows, by experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from repro.common.errors import InputError, unknown
from repro.records import tidy
from repro.reporting.figures import Shown
from repro.reports.groups import Group, key_of
from repro.reports.loading import Summary
from repro.reports.results import AnyGroup, Results

if TYPE_CHECKING:
    import pandas as pd

Made = Mapping[str, Callable[[Results], "pd.DataFrame"]]  # by name, what a paper's own module makes of the results


def of_paper(paper: str) -> Made:
    """The tables that `reports/<paper>/tables.py` makes; none where there is no such file."""
    name = f"repro.reports.{paper}.tables"
    return import_module(name).TABLES if find_spec(name) else {}


def table(shown: Shown, found: Results, made: Made) -> pd.DataFrame:
    """The rows of a figure or table, before its filter: of every group of its experiments that the page shows, and of
    variants of one's own that were run as these were."""
    if shown.table in made:
        return made[shown.table](found)
    if shown.table not in tidy.TABLES:
        raise unknown(f"table of '{shown.title}'", shown.table, (*tidy.TABLES, *made))
    names = [shown.experiment] if isinstance(shown.experiment, str) else shown.experiment
    if not names:
        raise InputError(f"'{shown.title}': table {shown.table} needs experiment")
    rows = []
    for (experiment, kind), group in found.shown.items():
        if experiment in names:
            for run in [*group.used(), *_alike(group, found)]:
                own = tidy.run(run) if shown.table != "runs" else {}
                about = {"experiment": experiment, "kind": kind, "model": own.get("model"), "seed": run["seed"]}
                about |= {"variant": run["setting"], "workers": run["workers"], "testbed": run["testbed"]}
                about |= {"breakdown": bool(run.get("breakdown"))} if isinstance(group, Group) else {}
                rows += [about | row for row in tidy.rows(shown.table, run)]
    return tidy.frame(rows)


def _alike(group: AnyGroup, found: Results) -> list[Summary]:
    """Runs of no group that is shown, but of its experiment, machine, data and length: somebody's own variants."""
    if not isinstance(group, Group):
        return []
    return [
        run
        for other in found.others
        if isinstance(other, Group) and other.first["experiment"] == group.first["experiment"]
        if key_of(other.first) == key_of(group.first)
        for run in other.used()
    ]
