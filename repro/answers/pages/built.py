"""The record of an earlier build: a page or figure with unchanged inputs and files is not built again.

`<out>/.built/<page>.json` holds the digest of a page's inputs, its summary for the overview, the digests of its files,
and of the rows that each figure shows. A page whose files are missing or edited is built again.
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
from repro.core.paths import CONFIGS, PACKAGE, RECORD_FILE, REPORTS, reference_root, results_root
from repro.records import rebased, sweep
from repro.records.store import run_folders

FOLDER = ".built"
ANSWERS = PACKAGE / "answers"
READ = ("answers", "core", "experiment", "records")  # packages that build pages
DRAWS = (ANSWERS / "pages/writing.py", ANSWERS / "figures", REPORTS / "palette.yaml")
LIBRARIES = ("seaborn", "matplotlib", "pandas", "numpy", "jinja2")


@dataclass
class Built:
    """The files of a built page."""

    page: str
    out: Path
    files: dict[str, str] = field(default_factory=dict)  # path below `out` -> digest of its content, pages first
    figures: dict[str, str] = field(default_factory=dict)  # name -> digest of its rows and specification
    inputs: str = ""
    summary: Any = None  # for the overview
    pdf: bool = False  # whether its figures are PDF files too
    code: str = ""  # digest of the code, which gives the summary its form

    @classmethod
    def before(cls, page: str, out: Path) -> Built:
        """The earlier build of a page; an empty one if there is none, or its record cannot be read."""
        try:  # json reads infinity, which ends of intervals may be
            return cls(page, out, **json.loads((out / FOLDER / f"{page}.json").read_bytes()))
        except (OSError, ValueError, TypeError, RecursionError):
            return cls(page, out)

    def has(self, paths: Iterable[str]) -> bool:
        """Whether these files are as this build wrote them."""
        return all(path in self.files and content(self.out / path) == self.files[path] for path in paths)

    def is_current(self, inputs: str, pdf: bool = False) -> bool:
        """Whether it has these inputs, all its files, and PDF files if they are wanted."""
        return self.inputs == inputs and self.pdf >= pdf and self.has(self.files)

    def stands(self) -> bool:
        """Whether this version of the code built it and its files are as they were written, of whatever runs."""
        return bool(self.files) and self.code == of_code() and self.has(self.files)

    def written(self) -> list[Path]:
        """Its files, pages first."""
        return [self.out / path for path in self.files]

    def keep(self) -> None:
        """Record it for the next build."""
        values = {name: value for name, value in vars(self).items() if name not in ("page", "out")}
        write_text(self.out / FOLDER / f"{self.page}.json", json.dumps(values, indent=1))


def inputs(page: str, results: Path | None, more: Any = None) -> str:
    """The digest of all inputs of a page: its runs and those of the validation, code, files, libraries."""
    runs = [reference_root() / rebased.FILE]
    for paper in (page, "validation"):
        if results in (None, reference_root()):
            runs += sorted((reference_root() / paper).glob("*"))
        if results != reference_root():
            root = results or results_root()
            runs += [folder / RECORD_FILE for folder in run_folders(root, paper)]
            runs += [folder / sweep.FILE for folder in sweep.folders(root, paper)]
    folder = config_folders.report_folder(page)
    others = [] if folder.parent == REPORTS else config_folders.folders_state()
    sources = [*_below(folder), *_below(CONFIGS), REPORTS / "palette.yaml"]
    sources += [*REPORTS.glob("*/*.csv"), *REPORTS.glob("*/__init__.py")]  # pages quote one another
    whole = results == reference_root()  # whose findings are checked against its verdicts
    return digest(whole, more, others, of_code(), *((str(path), content(path)) for path in (*sorted(sources), *runs)))


@cache
def of_code() -> str:
    """The digest of the code and libraries that build pages."""
    paths = [path for room in READ for path in _below(PACKAGE / room)]
    return digest(_libraries(), *((str(path), content(path)) for path in paths))


@cache
def of_drawing() -> str:
    """The digest of the code and libraries that draw figures."""
    paths = [path for each in DRAWS for path in (_below(each) if each.is_dir() else [each])]
    return digest(_libraries(), *(content(path) for path in paths))


def digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def content(path: Path) -> str:
    """The digest of a file; "" if there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except OSError:
        return ""


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


@cache
def _libraries() -> list[str]:
    return [sys.version, *map(version, LIBRARIES)]
