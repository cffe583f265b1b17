"""Where a page's figures and tables are written, and how a picture stands on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.answers.pages import built
from repro.answers.pages import cells as tables
from repro.answers.pages.built import Built
from repro.answers.pages.writing import save, write_csv, write_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Files:
    """Writes a page's figures and tables under `out` and remembers them."""

    page: str
    out: Path
    written: list[Path] = field(default_factory=list)
    pdf: bool = False  # figures as PDF too
    drawn_of: dict[str, str] = field(default_factory=dict)  # figure -> digest of what it was drawn of

    @cached_property
    def before(self) -> Built:
        """What an earlier build left."""
        return Built.before(self.page, self.out)

    def picture(self, draw: Callable[[], Any], of: str, name: str, alt: str, caption: str, rows: pd.DataFrame) -> str:
        """A figure's picture, and the rows that it shows as CSV; the Markdown that shows it: alt, the text in its
        place, and a caption with links to the files. `of`: what else than the rows it is drawn of; the same is not
        drawn again."""
        path = f"figures/{self.page}/{name}"
        suffixes = [".png", *([".pdf"] if self.pdf else [])]
        pictures = [f"{path}{suffix}" for suffix in suffixes]
        self.drawn_of[name] = built.digest(built.of_drawing(), of, dict(rows.dtypes), rows.to_csv())
        if self.before.figures.get(name) == self.drawn_of[name] and self.before.has(pictures):
            self.written += [self.out / each for each in pictures]
        else:
            self.written += save(draw(), self.out / path, suffixes)
        self.written.append(write_csv(rows, self.out / f"{path}.csv"))
        links = " ".join(f"[{suffix[1:].upper()}]({path}{suffix})" for suffix in (*suffixes[1:], ".csv"))
        return f"![{alt}]({path}.png)\n\n*{caption} {links}*"

    def table(self, frame: pd.DataFrame, name: str, left: Sequence[str] = ()) -> str:
        """A table as LaTeX in a file and as Markdown."""
        path = self.out / "tables" / self.page / f"{name}.tex"
        self.written.append(write_text(path, tables.latex(frame)))
        return tables.markdown(frame, left)

    def built(self, inputs: str, pages: Sequence[Path], said: Any) -> Built:
        """What was built, remembered for the next time."""
        digests = {path.relative_to(self.out).as_posix(): built.content(path) for path in (*pages, *self.written)}
        of_page = list(digests)[: len(pages)]
        now = Built(self.page, self.out, digests, self.drawn_of, of_page, inputs, said, self.pdf)
        now.keep()
        return now
