"""Configuration folders: the project's `paper_configs/`, and folders of other papers with the same layout.

`$REPRO_CONFIGS` lists folders, separated by colons (`--config-dir DIR` adds one); an installed package registers its
folder by an entry point of the group `repro.papers` (NAME = "package"). A folder may also contain `reports/PAPER/`: the
paper's claims, figures and page. If two folders define the same name, the first folder wins.

`$REPRO_CONFIGS` may also list files of single experiments (`repro run ./table3.yaml`).
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
from repro.core.not_none import not_none
from repro.core.paths import CONFIGS, PROJECT, REPORTS
from repro.core.registry import entry_point_values, module_folder
from repro.core.terminal import warn

VARIABLE = "REPRO_CONFIGS"
GROUP = "repro.papers"
EXPERIMENT_FILE = (".yaml", ".yml")  # how the name of a file with experiments ends
PAGES = "reports"  # subfolder with a folder for each page, as REPORTS


@contextmanager
def using_folders(places: Iterable[Path]) -> Iterator[None]:
    """Add folders to `$REPRO_CONFIGS` inside the block; restore the variable after it."""
    before = os.environ.get(VARIABLE)
    try:
        for place in places:
            use_folder(place)
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def use_folder(place: Path) -> None:
    """Add a folder, or an experiment's file, to `$REPRO_CONFIGS` of this process and of those that it starts."""
    places = [str(place.resolve()), *filter(None, folders_variable().split(os.pathsep))]
    inherit_folders(os.pathsep.join(dict.fromkeys(places)))


def folders_variable() -> str:
    """The value of `$REPRO_CONFIGS`."""
    return os.environ.get(VARIABLE, "")


def inherit_folders(value: str) -> None:
    """Set `$REPRO_CONFIGS`, in a process forked from one that was started earlier."""
    os.environ[VARIABLE] = value


def config_folders() -> list[Path]:
    """The project's folder, those of `$REPRO_CONFIGS`, those of packages; InputError for one of another layout."""
    return [CONFIGS, *(place for place in _others() if place.is_dir())]


def experiment_files() -> list[Path]:
    """The experiments' files in `$REPRO_CONFIGS`."""
    return [place for place in _others() if place.is_file()]


def _first(places: list[Path]) -> Path:
    """The first path that exists; if none does, the project's own, which comes first."""
    return next((place for place in places if place.exists()), places[0])


def find_config(*parts: str) -> Path:
    """The file of that path in the first folder that contains it; else the project's path, which does not exist."""
    return _first([folder.joinpath(*parts) for folder in config_folders()])


def profile_path(name: str) -> Path:
    """The path of a profile: absolute, or relative to the project or to another configuration folder."""
    return _first([folder / name for folder in (PROJECT, *config_folders()[1:])])


def report_folders() -> list[Path]:
    """Folders that contain a folder for each page."""
    return [REPORTS, *(folder / PAGES for folder in config_folders()[1:] if (folder / PAGES).is_dir())]


def report_folder(page: str) -> Path:
    """The folder of a page; for an unknown page the project's path, which does not exist."""
    return _first([folder / page for folder in report_folders()])


def report_module(page: str, name: str = "") -> ModuleType | None:
    """A Python file of a page's folder, or the folder as a package; None if it does not exist."""
    package, folder = f"repro.reports.{page}", report_folder(page)
    if folder.parent != REPORTS and folder.is_dir() and package not in sys.modules:
        _load_package(package, folder)
    module = f"{package}.{name}".rstrip(".")
    return importlib.import_module(module) if importlib.util.find_spec(module) else None


def _load_package(name: str, folder: Path) -> None:
    """Load a folder, with or without an `__init__.py`, as the package of that name."""
    start = folder / "__init__.py"
    spec = not_none(importlib.util.spec_from_file_location(name, start, submodule_search_locations=[str(folder)]))
    sys.modules[name] = importlib.util.module_from_spec(spec)
    if start.is_file():
        try:
            not_none(spec.loader).exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise


def folders_state() -> list[Any]:
    """A cache key that changes whenever a file of the other configuration folders changes."""
    parts = [folder / name for folder in config_folders()[1:] for name in _parts(CONFIGS)]
    return [user_cache.tree_digest(parts), *map(user_cache.path_state, map(str, experiment_files()))]


def _others() -> tuple[Path, ...]:
    return _named_and_installed(CONFIGS, folders_variable(), os.getcwd(), tuple(sys.path))


@lru_cache(maxsize=16)
def _named_and_installed(project: Path, value: str, cwd: str, path: tuple[str, ...]) -> tuple[Path, ...]:
    """Folders and files of `$REPRO_CONFIGS` and of installed packages. The arguments are all that it depends on."""
    named = [Path(cwd, name).resolve() for name in value.split(os.pathsep) if name]
    for place in named:
        if not (place.is_file() and place.suffix in EXPERIMENT_FILE) and not _is_folder_of(project, place):
            fault = f"has none of {', '.join(_parts(project))}" if place.is_dir() else "does not exist"
            fault = f"is no file {' or '.join(EXPERIMENT_FILE)} of an experiment" if place.is_file() else fault
            if "," in str(place) and not place.exists():
                fault += "; several are separated by colons, not commas"
            below = next((child for child in sorted(place.glob("*/")) if _is_folder_of(project, child)), None)
            advice = f"; {below} is one" if below else ""
            raise InputError(
                f"${VARIABLE} or --config-dir: {place} {fault}; must be a folder as paper_configs/ is{advice}"
            )
    installed = []
    for name, package in entry_point_values(GROUP, path).items():
        if folder := module_folder(package):
            installed.append(folder.resolve())
        else:
            warn(f"paper {name}: there is no package {package}, which should contain it")
    return tuple(place for place in dict.fromkeys([*named, *installed]) if place != project)


def _is_folder_of(project: Path, place: Path) -> bool:
    return any((place / part).is_dir() for part in _parts(project))


def _parts(project: Path) -> list[str]:
    """Names of the subfolders that a configuration folder may contain."""
    return sorted([PAGES, *(each.name for each in project.iterdir() if each.is_dir())])
