"""Write a page's figures and tables, and return the Markdown that shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.answers.figures import looks
from repro.answers.pages import built
from repro.answers.pages import cells as tables
from repro.answers.pages.built import Built
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.writing import save, write_csv, write_text

if TYPE_CHECKING:
    import pandas as pd

NARROW = "-narrow"  # the end of a narrow picture's name


@dataclass
class Files:
    """Writes a page's figures and tables under `out`, and remembers them."""

    page: str
    out: Path
    written: list[Path] = field(default_factory=list)
    pdf: bool = False  # figures as PDF too
    figures: dict[str, str] = field(default_factory=dict)  # name -> digest of its rows and specification

    @cached_property
    def before(self) -> Built:
        """The earlier build of the page."""
        return Built.before(self.page, self.out)

    def picture(
        self, draw: Callable[[float], Any], of: str, name: str, alt: str, caption: str, rows: pd.DataFrame
    ) -> Markdown:
        """Write a figure as PNG, a narrow one for phones too, and its rows as CSV; returns Markdown with the picture, a
        caption, and links to the files. draw: makes the figure, so many inches wide. alt, caption: Markdown. of: what
        the figure depends on besides its rows; an unchanged figure is not drawn again."""
        path = f"figures/{self.page}/{name}"
        suffixes = [".png", *([".pdf"] if self.pdf else [])]
        pictures = [*(f"{path}{suffix}" for suffix in suffixes), f"{path}{NARROW}.png"]
        self.figures[name] = built.digest(built.of_drawing(), of, dict(rows.dtypes), rows.to_csv())
        if self.before.figures.get(name) == self.figures[name] and self.before.has(pictures):
            self.written += [self.out / each for each in pictures]
        else:
            self.written += save(draw(looks.WIDTH), self.out / path, suffixes)
            self.written += save(draw(looks.NARROW), self.out / f"{path}{NARROW}")
        self.written.append(write_csv(rows, self.out / f"{path}.csv"))
        links = " ".join(f"[{suffix[1:].upper()}]({path}{suffix})" for suffix in (*suffixes[1:], ".csv"))
        return Markdown(f"![{alt}]({path}.png)\n\n*{caption} {links}*")

    def table(self, frame: pd.DataFrame, name: str, left: Sequence[str] = ()) -> Markdown:
        """Write a table as LaTeX; returns it as Markdown, with the columns `left` aligned left."""
        path = self.out / "tables" / self.page / f"{name}.tex"
        self.written.append(write_text(path, tables.latex(frame)))
        return tables.format_markdown(frame, left)

    def data(self, frame: pd.DataFrame, name: str) -> str:
        """Write a table as CSV; returns its path below the pages."""
        path = f"tables/{self.page}/{name}.csv"
        self.written.append(write_csv(frame, self.out / path))
        return path

    def text_table(self, frame: pd.DataFrame, name: str) -> Markdown:
        """A table of text, aligned left; "" if it is empty."""
        return self.table(frame, name, list(frame.columns)) if len(frame) else Markdown("")

    def built(self, inputs: str, pages: Sequence[Path], summary: Any) -> Built:
        """Record the build for the next one."""
        digests = {path.relative_to(self.out).as_posix(): built.content(path) for path in (*pages, *self.written)}
        now = Built(self.page, self.out, digests, self.figures, inputs, summary, self.pdf, built.of_code())
        now.keep()
        return now
