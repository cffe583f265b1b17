"""Folders of configurations: the project's `paper_configs/`, and those of other people's papers, laid out as it is.

`$REPRO_CONFIGS` names some, separated by colons (`--config-dir DIR` adds one); an installed package names its own by an
entry point of the group `repro.papers` (NAME = "package": the folder of that package). A folder may also have
`reports/PAPER/`: the paper's claims, figures and page. Where two folders have the same name, the first one has it.

`$REPRO_CONFIGS` may name a file as well: an experiment that stands in no folder (`repro run ./table3.yaml`).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from repro.core import user_cache
from repro.core.errors import InputError
from repro.core.paths import CONFIGS, PROJECT, REPORTS
from repro.core.registry import module_folder, registered
from repro.core.warnings import warn

VARIABLE = "REPRO_CONFIGS"
GROUP = "repro.papers"
PAGES = "reports"  # of a folder: a folder for each page, as REPORTS


@contextmanager
def used(places: Iterable[Path]) -> Iterator[None]:
    """Make folders known inside the block; what is made known there is forgotten after it."""
    before = os.environ.get(VARIABLE)
    try:
        for place in places:
            use(place)
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def use(place: Path) -> None:
    """Make a folder, or an experiment's file, known to this process and to those that it starts."""
    places = [str(place.resolve()), *filter(None, given().split(os.pathsep))]
    inherit(os.pathsep.join(dict.fromkeys(places)))


def given() -> str:
    """`$REPRO_CONFIGS`."""
    return os.environ.get(VARIABLE, "")


def inherit(value: str) -> None:
    """Set it in a process that was forked from an older one."""
    os.environ[VARIABLE] = value


def folders() -> list[Path]:
    """The project's, those that `$REPRO_CONFIGS` names, and those of packages.

    InputError where `$REPRO_CONFIGS` names what is no such folder.
    """
    return [CONFIGS, *(place for place in _others() if place.is_dir())]


def experiment_files() -> list[Path]:
    """The files among them."""
    return [place for place in _others() if place.is_file()]


def find(*parts: str) -> Path:
    """The first folder's file of that path; where none has it, the project's own that could be it."""
    places = [folder.joinpath(*parts) for folder in folders()]
    return next((place for place in places if place.is_file()), places[0])


def profile_path(name: str) -> Path:
    """The path of a profile: absolute, or relative to the project or to somebody else's folder."""
    places = [folder / name for folder in (PROJECT, *folders()[1:])]
    return next((place for place in places if place.is_file()), places[0])


def report_folders() -> list[Path]:
    """The folders with a folder for each page."""
    return [REPORTS, *(folder / PAGES for folder in folders()[1:] if (folder / PAGES).is_dir())]


def report_folder(page: str) -> Path:
    """The folder of a page; of a page that there is not, the project's own that could be it."""
    places = [folder / page for folder in report_folders()]
    return next((place for place in places if place.is_dir()), places[0])


def report_module(page: str, name: str = "") -> ModuleType | None:
    """A Python file of a page's folder, or the folder as a package; None where there is none."""
    package: Any = importlib.import_module("repro.reports")
    package.__path__[:] = map(str, report_folders())
    place = f"repro.reports.{page}.{name}".rstrip(".")
    return importlib.import_module(place) if importlib.util.find_spec(place) else None


def state() -> list[Any]:
    """What changes whenever a file of somebody else's folders does, for a key."""
    parts = [folder / name for folder in folders()[1:] for name in _parts(CONFIGS)]
    return [user_cache.tree_digest(parts), *map(user_cache.path_state, map(str, experiment_files()))]


def _others() -> tuple[Path, ...]:
    return _found(CONFIGS, given(), os.getcwd(), tuple(sys.path))


@lru_cache(maxsize=16)
def _found(own: Path, variable: str, folder: str, path: tuple[str, ...]) -> tuple[Path, ...]:
    named = [Path(folder, name).resolve() for name in variable.split(os.pathsep) if name]
    for place in named:
        if not place.is_file() and not any((place / part).is_dir() for part in _parts(own)):
            what = f"has none of {', '.join(_parts(own))}" if place.is_dir() else "does not exist"
            raise InputError(f"${VARIABLE} or --config-dir: {place} {what}; must be a folder as paper_configs/ is")
    return tuple(place for place in dict.fromkeys([*named, *_installed(path)]) if place != own)


def _installed(path: Iterable[str]) -> list[Path]:
    found = []
    for name, package in registered(GROUP, tuple(path)).items():
        if folder := module_folder(package):
            found.append(folder.resolve())
        else:
            warn(f"paper {name}: there is no package {package}, whose folder would have it")
    return found


def _parts(own: Path) -> list[str]:
    """What a folder of configurations may have in it."""
    return sorted([PAGES, *(each.name for each in own.iterdir() if each.is_dir())])
