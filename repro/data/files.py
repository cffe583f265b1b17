"""Finding a data set's files on this machine and checking them; needs no torch."""

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
    """Where downloads go: `$XDG_CACHE_HOME/repro`, else `~/.cache/repro`; on other systems what is usual there."""
    return user_cache_path("repro", appauthor=False)


def places(root: str | None = None) -> list[Path]:
    """The folders to search, in order: `root`, each of $REPRO_DATA (colon-separated), the user's cache."""
    found = []
    if root:
        given = Path(root).expanduser()
        if not given.is_dir():
            raise InputError(f"data.root: {given} is not a folder")
        found.append(given)
    found += [Path(part).expanduser() for part in os.environ.get("REPRO_DATA", "").split(":") if part]
    return [place.absolute() for place in [*found, cache_root()]]


def search(name: str, files: dict[str, File], root: str | None = None, folders: Sequence[str] = ()) -> Path | None:
    """The first folder that holds all of `files`, each checked; None where no place holds any of them.

    A place may hold them in `<place>/<name>/` or directly, or in the given `folders` of the place instead. InputError
    where a file is there but damaged (see `check`), and where only some of the files are found anywhere.
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
    """The first place's folder of that name, whatever is in it; None where no place has one."""
    return next((found for place in places(root) if (found := place / name).is_dir()), None)


def check(path: Path, expected: File) -> None:
    """InputError naming the file, with the expected and the found checksum, unless it is what it must be."""
    found = sha256(path)
    if found != expected.sha256:
        size = path.stat().st_size
        what = f"truncated, {size} of {expected.size} bytes" if size < expected.size else f"corrupt, {size} bytes"
        raise InputError(f"{path}: {what}: expected sha256 {expected.sha256}, found {found}; remove it or replace it")


def sha256(path: Path) -> str:
    """Of the file's bytes, in hexadecimal; InputError where it cannot be read."""
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
    """What an option "at most so many" comes to where there are `most`: null is `usual`, by default all.

    InputError unless it is a whole number, 1 or more.
    """
    if value is None:
        return most if usual is None else min(most, usual)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"dataset.{option}={value}: must be a whole number, 1 or more, or null")
    return min(most, value)


def combined(files: dict[str, File]) -> str:
    """One checksum of a data set: sha256 over its files' names and sha256, in the order of their names."""
    lines = "".join(f"{files[name].sha256}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()
