"""What was worked out before, kept in the user's cache as long as nothing that it came from has changed.

A file that cannot be read, or is none of ours, counts as absent, and is written anew; where none can be, nothing is
kept.
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

KEPT = 200  # files; the oldest go
State = list[int] | None  # of a file or folder: time of change and size; None: there is none


def folder() -> Path:
    """`$XDG_CACHE_HOME/repro-remembered`, else below `~/.cache`; apart from data sets, which are looked for there."""
    return user_cache_path("repro-remembered", appauthor=False)


def load(kind: str, key: Any) -> Any:
    """What `remember` was given for a key (plain data), if what it watched is as it was; else None."""
    try:
        found = json.loads(_path(kind, key).read_text(encoding="utf-8"))
        if all(_state(path) == state for path, state in found["watched"].items()):
            return found["value"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def save(kind: str, key: Any, value: Any, watched: Iterable[str] = ()) -> None:
    """Keep a value (plain data). watched: files and folders that it came from besides its key."""
    path = _path(kind, key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        states = {each: _state(each) for each in watched}
        write_atomically(path, json.dumps({"watched": states, "value": value}))
        files = sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for old in files[:-KEPT]:
            old.unlink(missing_ok=True)


def tree_digest(roots: Iterable[Path], suffixes: tuple[str, ...] = ("",), without: Iterable[str] = ()) -> str:
    """A digest of which files are below the folders, when they were changed, and their sizes.

    suffixes: with which the names of those end that count; without: names of folders that do not.
    """
    left_out = {*without, "__pycache__"}
    found = sorted(entry for root in roots for entry in _files(str(root), suffixes, left_out))
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _files(root: str, suffixes: tuple[str, ...], left_out: set[str]) -> Iterator[tuple[str, State]]:
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name not in left_out:
                yield from _files(entry.path, suffixes, left_out)
            elif entry.name.endswith(suffixes):
                status = entry.stat()
                yield entry.path, [status.st_mtime_ns, status.st_size]


def path_state(path: str) -> tuple[str, State]:
    """A file or folder with its state, for a key."""
    return path, _state(path)


def _state(path: str) -> State:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size]


def _path(kind: str, key: Any) -> Path:
    digest = hashlib.sha256(json.dumps([kind, key], sort_keys=True).encode()).hexdigest()
    return folder() / f"{kind}-{digest[:40]}.json"


def select_variables(environment: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """Those of an environment whose names begin so."""
    return {name: value for name, value in environment.items() if name.startswith(prefixes)}
