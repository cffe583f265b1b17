"""The registered data sets, each a module, and their files: where they are, whether they are right. Without torch."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from platformdirs import user_cache_path

from repro.core.errors import InputError
from repro.core.registry import PLUGINS

log = logging.getLogger("repro.data")


@dataclass(frozen=True)
class File:
    """The expected size in bytes and the checksum of a standard public file."""

    size: int
    sha256: str


def cache_root() -> Path:
    """The folder of downloads: `$XDG_CACHE_HOME/repro`, else `~/.cache/repro`, or the system's equivalent."""
    return user_cache_path("repro", appauthor=False)


def search_places(root: str | None = None) -> list[Path]:
    """The folders to search in order: `root`, those of $REPRO_DATA (colon-separated), the user's cache.
    InputError for a file in the place of a folder, and for a missing `root`."""
    named = [("data.root", root or ""), *(("$REPRO_DATA", each) for each in variable_places())]
    folders = [(source, Path(folder).expanduser()) for source, folder in named if folder]
    for source, folder in folders:
        if not folder.is_dir() and (folder.exists() or source == "data.root"):
            raise InputError(f"{source}: {folder} is not a folder")
    return [folder.absolute() for _, folder in folders] + [cache_root().absolute()]


def variable_places() -> list[str]:
    """What $REPRO_DATA names, separated by colons; a folder may be missing, as a mount on this machine."""
    return [each for each in os.environ.get("REPRO_DATA", "").split(":") if each]


def find_files(name: str, files: dict[str, File], root: str | None = None, folders: Sequence[str] = ()) -> Path | None:
    """The first folder with all of `files`, verified; None if no place has any of them.

    Folders are `<place>/<name>/` and the place itself, or `folders` below each place. InputError for a damaged file
    (see `check_file`), and if only some of the files are found.
    """
    incomplete: list[str] = []
    for place in search_places(root):
        for folder in [place / inner for inner in folders or (name, ".")]:
            absent = [file for file in files if not (folder / file).is_file()]
            if not absent:
                for file, expected in files.items():
                    check_file(folder / file, expected)
                return folder
            if len(absent) < len(files):
                incomplete.append(f"{folder} lacks {', '.join(absent)}")
    if incomplete:
        raise InputError(
            f"data set '{name}' is incomplete: {'; '.join(incomplete)} (`repro data fetch {name}` downloads it)"
        )
    return None


def find_folder(name: str, root: str | None = None) -> Path | None:
    """The first folder `name` in the searched places, with any contents; None if there is none."""
    return next((folder for place in search_places(root) if (folder := place / name).is_dir()), None)


def check_file(path: Path, expected: File) -> None:
    """InputError with the expected and the actual checksum, if they differ."""
    actual = file_sha256(path)
    if actual != expected.sha256:
        size = path.stat().st_size
        what = f"truncated, {size} of {expected.size} bytes" if size < expected.size else f"corrupt, {size} bytes"
        raise InputError(f"{path}: {what}: expected sha256 {expected.sha256}, found {actual}; remove it or replace it")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal; InputError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def gzipped_text(path: Path) -> str:
    """The content of a gzipped UTF-8 text file; InputError if it cannot be read."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return file.read()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not readable gzipped text ({error})") from None


def check_once(kind: str, checksum: str, check: Callable[[], object]) -> None:
    """Run a check of files, unless a marker in the user's cache shows that files of this checksum passed it before."""
    marker = cache_root() / kind / checksum
    if marker.exists():
        return
    check()
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    except OSError:
        log.debug("%s: cannot be written; the files will be checked again", marker)


def limited_count(option: str, value: object, most: int, usual: int | None = None) -> int:
    """The value of an option that limits a number, at most `most`; None stands for `usual`, by default for `most`.

    InputError unless it is a whole number of at least 1.
    """
    if value is None:
        return most if usual is None else min(most, usual)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"dataset.{option}={value}: must be a whole number, 1 or more, or null")
    return min(most, value)


def combined_checksum(files: dict[str, File]) -> str:
    """The SHA-256 over the names and checksums of a data set's files, sorted by name."""
    lines = "".join(f"{files[name].sha256}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


REGISTRY = PLUGINS["dataset"]


def dataset_names() -> list[str]:
    """The names of all data sets."""
    return REGISTRY.names()


def load_source(name: str) -> ModuleType:
    """The imported module of a data set; InputError listing the names for an unknown one."""
    return REGISTRY.load(name)


def task_of(name: str) -> str:
    """The task of a data set, one of `repro.data.base.TASKS`."""
    return getattr(load_source(name), "TASK", "classification")


def input_kind(name: str) -> str:
    """The kind of its inputs, one of `repro.data.base.KINDS`."""
    return getattr(load_source(name), "KIND", "images")


def is_generated(source: ModuleType) -> bool:
    """Whether a data set is generated from a seed by definition."""
    return getattr(source, "GENERATED", False)


def missing_message(name: str, root: str | None = None) -> str:
    """The message for missing files: the searched folders, and where to put which files."""
    source, searched = load_source(name), ", ".join(map(str, search_places(root)))
    if is_generated(source):
        return f"data set '{name}' is generated: there is nothing to download, and nothing to put anywhere"
    not_found, folder = f"data set '{name}' not found (looked in {searched})", cache_root() / name
    if not source.FILES:
        other = f"the folder {name} of one that REPRO_DATA names"
        return f"{not_found}: {source.MISSING} into {folder}, or into {other}"
    needed = ", ".join(source.FILES)
    return f"{not_found}: run `repro data fetch {name}`, or put {needed} into {folder}, or set REPRO_DATA"
