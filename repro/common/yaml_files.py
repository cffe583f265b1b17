"""YAML by libyaml, which is much faster than Python: the project's own files, each state of one parsed once; and what
somebody else may have written."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may be built without libyaml
MOST_BYTES = 2**22  # of a configuration, which has some kilobytes
DEEPEST = 100  # mappings and lists in one another


def read(path: Path) -> Any:
    """What a file holds, as values of the caller's own. Raises OSError and yaml.YAMLError."""
    state = path.stat()
    return pickle.loads(_read(path, state.st_mtime_ns, state.st_size))


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
