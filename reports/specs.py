"""Figures and tables of a page by their specifications (`reports/<page>/figures.yaml`), as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from repro.common.errors import unknown
from repro.reporting import drawing, figures
from repro.reporting.figures import Shown, Table
from repro.reporting.filters import chosen
from repro.reports.files import Files

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


@dataclass(frozen=True)
class Specs:
    """rows: gives the rows of what a specification names, before its filter; empty where nothing has been run."""

    page: str
    files: Files
    rows: Callable[[Shown], pd.DataFrame]

    @cached_property
    def shown(self) -> figures.File:
        return figures.read(Path(__file__).parent / self.page / "figures.yaml")

    def figure(self, name: str) -> str:
        """Picture, caption with its kinds of number, links to what is behind it."""
        figure = self._known("figure", name, self.shown.figures)
        table = self.rows(figure)
        rows = figures.rows(figure, table) if len(table) else table
        if not len(rows):
            return f"*{figure.title}: not run yet.*"
        caption = _caption(figure, rows)
        return self.files.picture(lambda: drawing.draw(figure, rows), repr(figure), name, figure.alt, caption, rows)

    def table(self, name: str) -> str:
        """A caption, and the table below it."""
        spec = self._known("table", name, self.shown.tables)
        table = self.rows(spec)
        cells = figures.cells(spec, table) if len(table) else table
        if not len(cells):
            return f"*{spec.title}: not run yet.*"
        return f"*{_caption(spec, chosen(table, spec.where))}*\n\n{self.files.table(cells, name)}"

    def _known(self, what: str, name: str, specs: Mapping[str, T]) -> T:
        if name not in specs:
            raise unknown(f"{what} of {self.page}", name, specs)
        return specs[name]


def _caption(shown: Shown, rows: pd.DataFrame) -> str:
    """Title, the kinds of number in it, and what else is to be said."""
    told = "kind" in rows and not (isinstance(shown, Table) and "kind" in (*shown.columns, *shown.index, shown.across))
    kinds = ", ".join(f"**{kind}**" for kind in dict.fromkeys(rows["kind"])) if told else ""
    return f"{shown.title}{f' ({kinds})' if kinds else ''}. {shown.caption}".strip()
