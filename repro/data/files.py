"""Finds and verifies a data set's files, without torch."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from repro.core.errors import InputError

log = logging.getLogger("repro.data")


@dataclass(frozen=True)
class File:
    """The expected size in bytes and the checksum of a standard public file."""

    size: int
    sha256: str


def cache_root() -> Path:
    """The folder of downloads: `$XDG_CACHE_HOME/repro`, else `~/.cache/repro`, or the system's equivalent."""
    return user_cache_path("repro", appauthor=False)


def places(root: str | None = None) -> list[Path]:
    """The folders to search in order: `root`, those of $REPRO_DATA (colon-separated), the user's cache."""
    found = []
    if root:
        given = Path(root).expanduser()
        if not given.is_dir():
            raise InputError(f"data.root: {given} is not a folder")
        found.append(given)
    found += [Path(part).expanduser() for part in os.environ.get("REPRO_DATA", "").split(":") if part]
    return [place.absolute() for place in [*found, cache_root()]]


def search(name: str, files: dict[str, File], root: str | None = None, folders: Sequence[str] = ()) -> Path | None:
    """The first folder with all of `files`, verified; None if no place has any of them.

    The files may be in `<place>/<name>/`, in the place itself, or in the given `folders` of the place. InputError for a
    damaged file (see `check`), and if only some of the files are found.
    """
    incomplete: list[str] = []
    for place in places(root):
        for folder in [place / inner for inner in folders or (name, ".")]:
            absent = [file for file in files if not (folder / file).is_file()]
            if not absent:
                for file, expected in files.items():
                    check(folder / file, expected)
                return folder
            if len(absent) < len(files):
                incomplete.append(f"{folder} lacks {', '.join(absent)}")
    if incomplete:
        raise InputError(
            f"data set '{name}' is incomplete: {'; '.join(incomplete)} (`repro data fetch {name}` downloads it)"
        )
    return None


def folder(name: str, root: str | None = None) -> Path | None:
    """The first folder `name` in the searched places, with any contents; None if there is none."""
    return next((found for place in places(root) if (found := place / name).is_dir()), None)


def check(path: Path, expected: File) -> None:
    """InputError with the expected and the actual checksum, if they differ."""
    found = sha256(path)
    if found != expected.sha256:
        size = path.stat().st_size
        what = f"truncated, {size} of {expected.size} bytes" if size < expected.size else f"corrupt, {size} bytes"
        raise InputError(f"{path}: {what}: expected sha256 {expected.sha256}, found {found}; remove it or replace it")


def sha256(path: Path) -> str:
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


def once(kind: str, checksum: str, check: Callable[[], object]) -> None:
    """Run a check of files, unless a note in the user's cache says that files of this checksum passed it before."""
    note = cache_root() / kind / checksum
    if note.exists():
        return
    check()
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    except OSError:
        log.debug("%s: cannot be written; the files will be checked again", note)


def limit(option: str, value: object, most: int, usual: int | None = None) -> int:
    """The value of an option that limits a number of `most`; None stands for `usual`, by default all.

    InputError unless it is a whole number of at least 1.
    """
    if value is None:
        return most if usual is None else min(most, usual)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"dataset.{option}={value}: must be a whole number, 1 or more, or null")
    return min(most, value)


def combined(files: dict[str, File]) -> str:
    """The checksum of a data set: the SHA-256 over its files' names and checksums, sorted by name."""
    lines = "".join(f"{files[name].sha256}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()
