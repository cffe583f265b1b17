"""What was built of what: a page, or a figure, whose inputs are as they were is not built again.

`<out>/.built/<page>.json` has a digest of what a page was built of, what it says of itself in the overview, its files
with digests of their content, and of what each figure was drawn. What is gone, or was changed by hand, is built again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from repro.answers.pages.writing import write_text
from repro.core import config_folders
from repro.core.paths import CONFIGS, PACKAGE, REPORTS, reference_root, results_root
from repro.records.store import run_folders

FOLDER = ".built"
ANSWERS = PACKAGE / "answers"
READ = ("answers", "core", "experiment", "ranking", "records")  # rooms that pages are built with
DRAWS = (ANSWERS / "pages/writing.py", ANSWERS / "tables/foreign.py", ANSWERS / "figures", REPORTS / "palette.yaml")
LIBRARIES = ("matplotlib", "pandas", "numpy", "jinja2")


@dataclass
class Built:
    """The files of a page: what was built of it before, by path below `out`, and what is now."""

    page: str
    out: Path
    files: dict[str, str] = field(default_factory=dict)  # path -> digest of its content
    figures: dict[str, str] = field(default_factory=dict)  # name -> digest of what it was drawn of
    pages: list[str] = field(default_factory=list)
    inputs: str = ""
    said: Any = None
    pdf: bool = False  # whether its figures are there as PDF too

    @classmethod
    def before(cls, page: str, out: Path) -> Built:
        """What an earlier build left; nothing where that cannot be told."""
        try:
            return cls(page, out, **json.loads((out / FOLDER / f"{page}.json").read_bytes()))  # an end may be infinite
        except (OSError, ValueError, TypeError, RecursionError):
            return cls(page, out)

    def has(self, paths: Iterable[str]) -> bool:
        """Whether files are there as this build wrote them."""
        return all(path in self.files and content(self.out / path) == self.files[path] for path in paths)

    def is_of(self, inputs: str, pdf: bool = False) -> bool:
        """Whether it was built of these inputs, with PDFs where they are asked for, and is all there."""
        return self.inputs == inputs and self.pdf >= pdf and self.has(self.files)

    def written(self) -> tuple[list[Path], list[Path]]:
        """(pages, other files)"""
        others = [path for path in self.files if path not in self.pages]
        return [self.out / path for path in self.pages], [self.out / path for path in others]

    def keep(self) -> None:
        """Remember it for the next build."""
        told = {name: value for name, value in vars(self).items() if name not in ("page", "out")}
        write_text(self.out / FOLDER / f"{self.page}.json", json.dumps(told, indent=1))


def inputs(page: str, results: Path | None, more: Any = None) -> str:
    """The digest of all that a page is built of: its runs and those of the validation, code, files, libraries."""
    runs: list[Path] = []
    for paper in (page, "validation"):
        if results in (None, reference_root()):
            runs += sorted((reference_root() / paper).glob("*"))
        if results != reference_root():
            runs += [folder / "summary.json" for folder in run_folders(results or results_root(), paper)]
    folder = config_folders.report_folder(page)
    others = [] if folder.parent == REPORTS else config_folders.state()
    own = [*_below(folder), *_below(CONFIGS), REPORTS / "palette.yaml"]
    own += [*REPORTS.glob("*/*.csv"), *REPORTS.glob("*/__init__.py")]  # what pages say of one another
    own += [path for room in READ for path in _below(PACKAGE / room)]
    whole = results == reference_root()  # whose findings are held against its verdicts
    return digest(whole, more, others, _libraries(), *((str(path), content(path)) for path in (*sorted(own), *runs)))


@cache
def of_drawing() -> str:
    """The digest of what makes a picture of rows."""
    paths = [path for each in DRAWS for path in (_below(each) if each.is_dir() else [each])]
    return digest(_libraries(), *(content(path) for path in paths))


def digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def content(path: Path) -> str:
    """The digest of a file; "" where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except OSError:
        return ""


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


@cache
def _libraries() -> list[str]:
    return [sys.version, *map(version, LIBRARIES)]
