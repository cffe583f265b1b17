"""The figures and tables of a page as Markdown, by their specifications in `reports/<page>/figures.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import pandas as pd

from repro.answers.claims.stats import INFINITY
from repro.answers.figures import drawing
from repro.answers.figures import specification as figures
from repro.answers.figures.looks import display_name
from repro.answers.figures.specification import Figure, Shown, Table
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.reference import quoted
from repro.answers.tables.results import Results
from repro.core import config_folders
from repro.core.errors import InputError, unknown_name
from repro.records.filters import select_rows
from repro.records.run_columns import run_row
from repro.records.tables import TABLES, list_entries, make_frame


@dataclass(frozen=True)
class Specs:
    """rows: returns the rows of a specification's table, unfiltered; empty without runs. placed: the names of figures
    and tables that a page has."""

    page: str
    files: Files
    rows: Callable[[Shown], pd.DataFrame]
    placed: set[tuple[str, str]] = field(default_factory=set)

    @cached_property
    def shown(self) -> figures.File:
        return figures.read(config_folders.report_folder(self.page) / "figures.yaml")

    def figure(self, name: str) -> Markdown:
        """The picture with its caption, kinds of number, and links to its files."""
        figure = self._known("figures", name)
        table = self.rows(figure)
        rows = figures.rows(figure, table) if len(table) else table
        if not len(rows):
            return Markdown(f"*{figure.title}: not run yet.*")
        caption, figure = _caption(figure, rows), with_numbers(figure, self.page)
        return self.files.picture(
            partial(drawing.draw_figure, figure, rows), repr(figure), name, figure.alt, caption, rows
        )

    def table(self, name: str) -> Markdown:
        """The table below its caption."""
        spec = self._known("tables", name)
        table = self.rows(spec)
        cells = figures.cells(spec, table) if len(table) else table
        if not len(cells):
            return Markdown(f"*{spec.title}: not run yet.*")
        unreached = f" {INFINITY}: not reached." if cells.isin([INFINITY]).to_numpy().any() else ""
        caption = _caption(spec, select_rows(table, spec.where)) + unreached
        return Markdown(f"*{caption}*\n\n{self.files.table(cells, name)}")

    def rest(self, what: Literal["figures", "tables"]) -> list[Markdown]:
        """The figures or tables that no page has yet, in the file's order."""
        show = self.figure if what == "figures" else self.table
        return [show(name) for name in getattr(self.shown, what) if (what, name) not in self.placed]

    def _known(self, what: Literal["figures", "tables"], name: str) -> Any:
        specs = getattr(self.shown, what)
        if name not in specs:
            raise unknown_name(f"{what.removesuffix('s')} of {self.page}", name, specs)
        self.placed.add((what, name))
        return specs[name]


def with_numbers(figure: Figure, paper: str) -> Figure:
    """The figure with its places in `paper_configs/reference/<paper>.csv` replaced by the numbers there."""

    def known(value: float | list[str]) -> float:
        return quoted(paper).value(*value) if isinstance(value, list) else value

    at = {
        side: {name: known(value) for name, value in lines.items()} if isinstance(lines, dict) else lines
        for side, lines in figure.at.items()
    }
    return figure.model_copy(update={"at": at})


def _caption(shown: Shown, rows: pd.DataFrame) -> str:
    """Title, kinds of number unless a column shows them, and the caption."""
    in_column = isinstance(shown, Table) and "kind" in (*shown.columns, *shown.index, shown.across)
    names = map(display_name, dict.fromkeys(rows["kind"])) if "kind" in rows and not in_column else ()
    kinds = "; ".join(f"**{name}**" for name in names)  # a name may have a comma
    return f"{shown.title}{f' ({kinds})' if kinds else ''}. {shown.caption}".strip()


Made = Mapping[str, Callable[[Results], pd.DataFrame]]  # name -> function of a paper's `tables.py`


def of_paper(paper: str) -> Made:
    """`TABLES` of `reports/<paper>/tables.py`; empty without this file."""
    module = config_folders.report_module(paper, "tables")
    return module.TABLES if module else {}


def table(shown: Shown, results: Results, made: Made) -> pd.DataFrame:
    """The unfiltered rows of a figure or table: those of all runs of its experiments that the page shows."""
    if shown.table in made:
        return made[shown.table](results)
    if shown.table not in TABLES:
        raise unknown_name(f"table of '{shown.title}'", shown.table, (*TABLES, *made))
    names = [shown.experiment] if isinstance(shown.experiment, str) else shown.experiment
    if not names:
        raise InputError(f"'{shown.title}': table {shown.table} needs experiment")
    rows = []
    for (experiment, kind), group in results.shown.items():
        for run in group.records.values() if experiment in names else ():
            identity = run.identity
            about = {"run": run.record.name, "variant": run.label, "workers": identity.workers}
            about |= {"testbed": identity.testbed.name, "model": run.model_name, "seed": identity.seed}
            about |= {"breakdown": identity.breakdown, "experiment": experiment, "kind": kind}
            entries = [run_row(run)] if shown.table == "runs" else list_entries(shown.table, run.record)
            rows += [about | entry for entry in entries]
    return make_frame(rows)
