"""YAML files, parsed by libyaml: configurations, each parsed once, and texts from others, parsed strictly."""

from __future__ import annotations

import pickle
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from repro.core import user_files
from repro.core.errors import InputError


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's loader if PyYAML has it; 1e-4 is a number, as in YAML 1.2."""


# arguments of `add_implicit_resolver`: for readers, and for writers, which then quote such a text
EXPONENT = "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), [*"-+0123456789"]
Loader.add_implicit_resolver(*EXPONENT)
MOST_BYTES = 2**22  # of a configuration; usual ones have a few kilobytes
MOST_VALUES = 10**5  # of a file, those behind aliases included; our longest has 2,000
DEEPEST = 100  # nested mappings and lists


def read_yaml(path: Path, kind: str = "YAML file") -> Any:
    """The content of a file; the caller may change it. InputError for unreadable YAML."""
    try:
        state = path.stat()
        return pickle.loads(_read(path, state.st_mtime_ns, state.st_size))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise InputError(f"{path}: not a readable {kind} ({reason})") from None


def read_entries(path: Path, kind: str = "YAML file") -> dict[str, Any]:
    """The content of a file of entries `name: value`; InputError for any other."""
    return as_entries(read_yaml(path, kind), str(path))


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
    text = user_files.read_bytes(path)
    check_size(text, Loader)
    return pickle.dumps(yaml.load(text.decode("utf-8"), Loader))


def parse_plain(text: bytes, loader: Any = Loader) -> Any:
    """The value of an untrusted YAML text of mappings, lists and plain values, without aliases; ValueError as
    `check_size`, or yaml.YAMLError."""
    check_size(text, loader, aliases=False)
    return yaml.load(text, loader)


def check_size(text: bytes, loader: Any, aliases: bool = True) -> None:
    """ValueError for a text of more than MOST_BYTES, of more than MOST_VALUES where each alias counts as all that it
    stands for (a few lines of them can expand beyond all memory), nested deeper than DEEPEST, which crashes libyaml, or
    with an alias if there must be none."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    sizes: dict[str | None, int] = {}  # anchor -> values
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]  # (anchor, values until now) of each collection
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > DEEPEST + 1:
                raise ValueError(f"nested more than {DEEPEST} deep {event.start_mark}")
            continue
        if isinstance(event, yaml.AliasEvent):
            if not aliases or event.anchor not in sizes:  # unknown, or of a collection around it
                raise ValueError(f"an alias, *{event.anchor} {event.start_mark}")
            size = sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            size = sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
            sizes[anchor] = size
        else:
            continue
        anchor, before = open_nodes.pop()
        open_nodes.append((anchor, before + size))
        if before + size > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES:,} values {event.start_mark}")
