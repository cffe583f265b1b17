"""A cache of computed values in the user's cache folder; a value is valid while its inputs are unchanged.

An unreadable file counts as a miss and is overwritten; if the folder cannot be written, nothing is cached.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from repro.core.atomic import write_atomically

KEPT = 200  # maximum number of files; the oldest are deleted
State = list[int] | None  # modification time (ns) and size of a file or folder; None: it does not exist


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/repro-remembered`, else below `~/.cache`; separate from the data sets there."""
    return user_cache_path("repro-remembered", appauthor=False)


def load_cached(kind: str, key: Any) -> Any:
    """The value that `save_cached` stored for a key, if the watched files are unchanged; else None."""
    try:
        stored = json.loads(_path(kind, key).read_text(encoding="utf-8"))
        if all(_state(path) == state for path, state in stored["watched"].items()):
            return stored["value"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def save_cached(kind: str, key: Any, value: Any, watched: Iterable[str] = ()) -> None:
    """Store a value (plain data). watched: files and folders, besides the key, on which it depends."""
    path = _path(kind, key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        states = {each: _state(each) for each in watched}
        write_atomically(path, json.dumps({"watched": states, "value": value}))
        files = sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for old in files[:-KEPT]:
            old.unlink(missing_ok=True)


def tree_digest(roots: Iterable[Path], suffixes: tuple[str, ...] = ("",), without: Iterable[str] = ()) -> str:
    """A digest of the paths, modification times and sizes of the files below the folders.

    suffixes: only files with these suffixes count; without: names of folders to skip.
    """
    skipped = {*without, "__pycache__"}
    files = sorted(entry for root in roots for entry in _files(str(root), suffixes, skipped))
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def _files(root: str, suffixes: tuple[str, ...], skipped: set[str]) -> Iterator[tuple[str, State]]:
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name not in skipped:
                yield from _files(entry.path, suffixes, skipped)
            elif entry.name.endswith(suffixes):
                status = entry.stat()
                yield entry.path, [status.st_mtime_ns, status.st_size]


def path_state(path: str) -> tuple[str, State]:
    """A path with its state, for a cache key."""
    return path, _state(path)


def _state(path: str) -> State:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size]


def _path(kind: str, key: Any) -> Path:
    digest = hashlib.sha256(json.dumps([kind, key], sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"{kind}-{digest[:40]}.json"


def select_variables(environment: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """The variables of an environment whose names start with one of the prefixes."""
    return {name: value for name, value in environment.items() if name.startswith(prefixes)}
