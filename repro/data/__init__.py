"""The data sets: one file each, real where its files are found, else a stand-in that needs no download and is named so.

    load("mnist", root=None, standin="auto")    -> Dataset (repro.data.base), raises InputError
    ensure("mnist", root=None, standin="auto")  search, else download, else stand-in; says in one line which
    status()                                    rows for `repro data list`; imports no torch

A data set's module holds `FILES` (file name -> size and checksums), `MIRRORS` (where they may be downloaded),
`STANDIN` (the stand-in's name), `read(paths)` and `standin()`, both giving a `Dataset`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from repro.data import files
from repro.errors import InputError, unknown

if TYPE_CHECKING:
    from repro.data.base import Dataset

REGISTRY = {"mnist": "repro.data.mnist"}
STANDIN_MODES = ("auto", "never", "always")

# How long `ensure` waits for a mirror that does not answer, and for a whole download, in seconds.
QUICK_S, QUICK_TOTAL_S = 5.0, 180.0


def names() -> list[str]:
    """The data sets that there are."""
    return sorted(REGISTRY)


def module(name: str) -> ModuleType:
    """The module of the data set `name`; an unknown name is an InputError that lists the valid ones."""
    if name not in REGISTRY:
        raise unknown("data set", name, REGISTRY)
    return importlib.import_module(REGISTRY[name])


def load(name: str, root: str | None = None, standin: str = "auto") -> Dataset:
    """The data set `name`, its tensors in memory.

    `root` is searched before $REPRO_DATA and the user's cache. `standin`: "auto" takes the stand-in where no file of
    the real data set is found, "never" raises InputError there, "always" does not look. A file that is found but is
    truncated or corrupt is an InputError in "auto" too: a damaged copy never turns into the stand-in.
    """
    source = module(name)
    _check_mode(standin)
    folder = None if standin == "always" else files.search(name, source.FILES, root)
    if folder is not None:
        return source.read({file: folder / file for file in source.FILES})
    if standin == "never":
        raise InputError(missing(name, root))
    return source.standin()


def ensure(name: str, root: str | None = None, standin: str = "auto", say: Callable[[str], Any] = print) -> Path | None:
    """Have the data set there before a run: found, else downloaded into the cache, else the stand-in.

    Says in one line which it is. Returns the folder of the real files, or None for the stand-in. Raises InputError
    for a damaged or incomplete copy, and where `standin` is "never" and nothing can be had.
    """
    from repro.data.fetch import fetch

    source = module(name)
    _check_mode(standin)
    if standin == "always":
        say(f"data: {source.STANDIN} (stand-in for {name}, asked for)")
        return None
    if folder := files.search(name, source.FILES, root):
        say(f"data: {name}, found in {folder}, checksums right")
        return folder
    try:
        folder = fetch(name, timeout_s=QUICK_S, total_s=QUICK_TOTAL_S)
    except InputError as error:
        if standin == "never":
            raise
        say(f"data: {source.STANDIN} (stand-in: {name} is not on this machine and could not be downloaded; "
            f"`repro data fetch {name}` says why)")
        files.log.debug("%s", error)
        return None
    say(f"data: {name}, downloaded to {folder}, checksums right")
    return folder


def missing(name: str, root: str | None = None) -> str:
    """One line: where the data set was looked for, and what to put where."""
    looked = ", ".join(str(place) for place in files.places(root))
    return (f"data set '{name}' not found (looked in {looked}): run `repro data fetch {name}`, or put "
            f"{', '.join(module(name).FILES)} into {files.cache_root() / name}, or set REPRO_DATA")


def status(root: str | None = None) -> list[dict[str, Any]]:
    """A row a data set: name, where (folder or None), ok (True, False for a damaged copy, None for none), detail,
    megabytes of the real files, standin (name of what is taken where there is none)."""
    rows = []
    for name in names():
        source = module(name)
        row = {"name": name, "where": None, "ok": None, "detail": "missing",
               "megabytes": round(sum(file.size for file in source.FILES.values()) / 1e6, 1), "standin": source.STANDIN}
        try:
            if folder := files.search(name, source.FILES, root):
                row |= {"where": str(folder), "ok": True, "detail": "checksums right"}
        except InputError as error:
            row |= {"ok": False, "detail": str(error)}
        rows.append(row)
    return rows


def verify(name: str, root: str | None = None) -> Path:
    """The folder of the data set's files, all checksums right; InputError where missing, incomplete or damaged."""
    folder = files.search(name, module(name).FILES, root)
    if folder is None:
        raise InputError(missing(name, root))
    return folder


def _check_mode(standin: str) -> None:
    if standin not in STANDIN_MODES:
        raise unknown("value of standin", str(standin), STANDIN_MODES)
