"""YAML by libyaml, which is much faster than Python: the project's own files, each state of one parsed once; and what
somebody else may have written."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from repro.core.errors import InputError

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may be built without libyaml
MOST_BYTES = 2**22  # of a configuration, which has some kilobytes
DEEPEST = 100  # mappings and lists in one another


def read(path: Path, what: str = "YAML file") -> Any:
    """What a file holds, as values of the caller's own; InputError naming it where it cannot be read as YAML."""
    try:
        state = path.stat()
        return pickle.loads(_read(path, state.st_mtime_ns, state.st_size))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise InputError(f"{path}: not a readable {what} ({reason})") from None


def entries(path: Path, what: str = "YAML file") -> dict[str, Any]:
    """The same of a file that holds entries `name: value`; InputError for any other."""
    return as_entries(read(path, what), str(path))


def as_entries(found: Any, where: str) -> dict[str, Any]:
    """The value itself where it is a mapping of names; InputError for any other."""
    if not isinstance(found, dict):
        shown = "is empty" if found is None else f"holds {str(found)[:40]!r}"
        raise InputError(f"{where}: {shown}; must be entries `name: value`")
    if wrong := [name for name in found if not isinstance(name, str)]:
        raise InputError(f"{where}: the name {wrong[0]} is no text; must be entries `name: value`")
    return found


@cache
def _read(path: Path, modified_ns: int, size: int) -> bytes:
    return pickle.dumps(yaml.load(path.read_text(encoding="utf-8"), LOADER))


def parse_plain(text: bytes, loader: Any = LOADER) -> Any:
    """What YAML holds that is made of mappings, lists and values alone, whoever wrote it.

    Aliases are refused: a few lines of them stand for more values than memory holds. So are more than MOST_BYTES, and
    nesting deeper than DEEPEST, which ends the process in libyaml's reader. Raises ValueError and yaml.YAMLError.
    """
    if len(text) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"an alias, *{event.anchor} {event.start_mark}")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} deep {event.start_mark}")
    return yaml.load(text, loader)
