"""Where a page's figures and tables are written, and how a picture stands on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.reports import tables
from repro.reports.writing import save, write_csv, write_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Files:
    """Writes a paper's figures and tables under `out` and remembers them."""

    paper: str
    out: Path
    written: list[Path] = field(default_factory=list)

    def picture(self, figure: Any, name: str, alt: str, caption: str, rows: pd.DataFrame) -> str:
        """PNG and PDF of a figure, and the rows that it shows as CSV; the Markdown that shows it: alt, the text in its
        place, and a caption with links to the files."""
        self.written += save(figure, self._figures / name)
        self.written.append(write_csv(rows, self._figures / f"{name}.csv"))
        path = f"figures/{self.paper}/{name}"
        return f"![{alt}]({path}.png)\n\n*{caption} [PDF]({path}.pdf) [CSV]({path}.csv)*"

    def table(self, frame: pd.DataFrame, name: str, left: Sequence[str] = ()) -> str:
        """A table as LaTeX in a file and as Markdown."""
        path = self.out / "tables" / self.paper / f"{name}.tex"
        self.written.append(write_text(path, tables.latex(frame)))
        return tables.markdown(frame, left)

    @property
    def _figures(self) -> Path:
        return self.out / "figures" / self.paper
