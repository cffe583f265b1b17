"""YAML files, parsed by libyaml: configurations, each parsed once, and texts from others, parsed strictly."""

from __future__ import annotations

import pickle
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from repro.core.errors import InputError


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's loader if PyYAML has it; 1e-4 is a number, as in YAML 1.2."""


# arguments of `add_implicit_resolver`: for readers, and for writers, which then quote such a text
EXPONENT = "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), [*"-+0123456789"]
Loader.add_implicit_resolver(*EXPONENT)
MOST_BYTES = 2**22  # of a configuration; usual ones have a few kilobytes
DEEPEST = 100  # nested mappings and lists


def read(path: Path, kind: str = "YAML file") -> Any:
    """The content of a file; the caller may change it. InputError for unreadable YAML."""
    try:
        state = path.stat()
        return pickle.loads(_read(path, state.st_mtime_ns, state.st_size))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise InputError(f"{path}: not a readable {kind} ({reason})") from None


def entries(path: Path, kind: str = "YAML file") -> dict[str, Any]:
    """The content of a file of entries `name: value`; InputError for any other."""
    return as_entries(read(path, kind), str(path))


def as_entries(value: Any, where: str) -> dict[str, Any]:
    """The value, if it is a mapping with names as keys; InputError for any other."""
    if not isinstance(value, dict):
        shown = "is empty" if value is None else f"holds {str(value)[:40]!r}"
        raise InputError(f"{where}: {shown}; must be entries `name: value`")
    if wrong := [name for name in value if not isinstance(name, str)]:
        raise InputError(f"{where}: the name {wrong[0]} is no text; must be entries `name: value`")
    return value


@cache
def _read(path: Path, modified_ns: int, size: int) -> bytes:
    return pickle.dumps(yaml.load(path.read_text(encoding="utf-8"), Loader))


def parse_plain(text: bytes, loader: Any = Loader) -> Any:
    """The value of an untrusted YAML text of mappings, lists and plain values; ValueError or yaml.YAMLError.

    Refused are aliases, a few lines of which can expand beyond all memory, texts of more than MOST_BYTES, and nesting
    deeper than DEEPEST, which crashes libyaml.
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
