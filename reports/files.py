"""Where a page's figures and tables are written, and how a picture stands on it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.reports import tables
from repro.reports.writing import save, write_csv, write_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Picture:
    """A figure as the page shows it: path without suffix, text in its place, caption (Markdown), files beside it."""

    path: str
    alt: str
    caption: str
    links: list[tuple[str, str]] = field(default_factory=list)

    def markdown(self) -> str:
        links = " ".join(f"[{name}]({link})" for name, link in self.links)
        return f"![{self.alt}]({self.path}.png)\n\n*{self.caption} {links}*"


@dataclass
class Files:
    """Writes a paper's figures and tables under `out` and remembers them."""

    paper: str
    out: Path
    written: list[Path] = field(default_factory=list)

    def picture(self, figure: Any, name: str, alt: str, caption: str, data: Mapping[str, pd.DataFrame]) -> Picture:
        """PNG and PDF of a figure, a CSV for each frame of `data` (label -> frame).

        The first frame's file has the figure's name, the others' their label after it.
        """
        self.written += save(figure, self._figures / name)
        links = [("PDF", f"{self._folder}/{name}.pdf")]
        for i, (label, frame) in enumerate(data.items()):
            stem = name if i == 0 else f"{name}-{slug(label)}"
            links.append((f"{label} (CSV)" if len(data) > 1 else "CSV", self.csv(frame, stem)))
        return Picture(f"{self._folder}/{name}", alt, caption, links)

    def csv(self, frame: pd.DataFrame, stem: str) -> str:
        """A CSV beside the figures; the link to it."""
        self.written.append(write_csv(frame, self._figures / f"{stem}.csv"))
        return f"{self._folder}/{stem}.csv"

    def table(self, frame: pd.DataFrame, name: str, left: Sequence[str] = ()) -> str:
        """A table as LaTeX in a file and as Markdown."""
        path = self.out / "tables" / self.paper / f"{name}.tex"
        self.written.append(write_text(path, tables.latex(frame)))
        return tables.markdown(frame, left)

    @property
    def _figures(self) -> Path:
        return self.out / "figures" / self.paper

    @property
    def _folder(self) -> str:
        return f"figures/{self.paper}"


def slug(text: str) -> str:
    """`Pipe-SGD + T` as a part of a file's name: `pipe-sgd-t`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
