"""Reading files that a user names or others have written: sizes are limited, JSON and YAML are parsed strictly.

YAML is parsed by libyaml; a configuration is parsed once."""

from __future__ import annotations

import errno
import json
import math
import os
import pickle
import re
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import yaml

from repro.core import safe_files
from repro.core.errors import InputError

LARGEST_FILE = 64 * 2**20  # bytes; a profile of a thousand layers has a few hundred thousand


def read_bytes(path: Path) -> bytes:
    """The content of a regular file of at most LARGEST bytes; OSError for larger files, devices and pipes."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file")
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"{size:,} bytes; must be {LARGEST_FILE:,} or less")
    return path.read_bytes()


def read_text(path: Path) -> str:
    """The content as UTF-8 text; OSError as `read_bytes`, and UnicodeDecodeError."""
    return read_bytes(path).decode("utf-8")


def read_profile(path: Path, remedy: str) -> str:
    """The text of a profile; InputError if it cannot be read. remedy: what to do about a missing file."""
    try:
        return read_text(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such profile; {remedy}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: not a readable profile ({reason})") from None


def check_target(path: Path) -> None:
    """InputError if no file can be created there, or only in the place of something else than a file."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")
    if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):  # a rename would replace it
        raise InputError(f"{path}: is a link, pipe or device; must be a regular file, or a new name")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; must be a file")


def check_target_folder(option: str, path: Path) -> None:
    """InputError if files cannot be written in the folder that an option names, or if no folder can be made there."""
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not existing.is_dir():
        raise InputError(f"{option} {path}: must be a folder, or a new name for one")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{option} {path}: nothing can be written there; must be a folder that you may write")


def make_target_folder(option: str, path: Path) -> None:
    """Make the folder that an option names, if there is none; InputError as `check_target_folder`."""
    check_target_folder(option, path)
    try:
        safe_files.make_folder(path)
    except OSError as error:
        raise InputError(f"{option} {path}: no folder can be made there ({error.strerror or error})") from None


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str | bytes) -> Any:
    """The value of a standard JSON text; ValueError with the reason for any other.

    Python's own reader accepts NaN and infinities, drops duplicate names, and raises RecursionError for deep nesting.
    """
    decoded = text.decode() if isinstance(text, bytes) else text
    try:
        value = _DECODER.decode(decoded)
        if _SURROGATE.search(decoded):  # a lone surrogate cannot be encoded
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    return value


def _unique_entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return entries


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} overflows a double")
    return number


def _whole(text: str) -> int:
    if not -(2**63) <= (number := int(text)) < 2**63:
        raise ValueError(f"{text[:40]} overflows a 64-bit integer")
    return number


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_entries, parse_float=_number, parse_int=_whole, parse_constant=_constant
)


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's loader if PyYAML has it; 1e-4 is a number, as in YAML 1.2, and names are unique."""

    def construct_document(self, node: Any) -> Any:
        """The content; a ConstructorError if a name occurs twice in a mapping, of which PyYAML would drop the first."""
        waiting, seen = [node], set()
        while waiting:
            if id(each := waiting.pop()) in seen or isinstance(each, yaml.ScalarNode):
                continue  # an alias
            seen.add(id(each))
            names: dict[tuple[str, str], Any] = {}
            for pair in each.value:
                if isinstance(each, yaml.SequenceNode):
                    waiting.append(pair)
                    continue
                waiting += pair
                if (
                    isinstance(key := pair[0], yaml.ScalarNode)
                    and names.setdefault((key.tag, key.value), key) is not key
                ):
                    first = names[key.tag, key.value].start_mark.line + 1
                    problem = f"{key.value} is there twice, first in line {first}"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        return super().construct_document(node)


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
        return pickle.loads(_read_cached(path, state.st_mtime_ns, state.st_size))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not a readable {kind} ({describe_yaml_error(path, error)})") from None


def describe_yaml_error(path: Path, error: Exception) -> str:
    """Why a YAML file cannot be read, with its line."""
    if isinstance(error, OSError):
        return str(error.strerror)
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).replace('in "<byte string>", ', "").split())
    line = error.problem_mark.line
    begins = read_bytes(path).decode().splitlines()[line : line + 1]
    if begins and "\t" in begins[0][: len(begins[0]) - len(begins[0].lstrip())]:
        return f"line {line + 1}: begins with a tab; must be spaces"
    return f"line {line + 1}: {' '.join(str(error.problem).split())}"


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
def _read_cached(path: Path, modified_ns: int, size: int) -> bytes:
    text = read_bytes(path)
    check_size(text, Loader)
    return pickle.dumps(yaml.load(text.decode("utf-8"), Loader))


def parse_plain(text: bytes, loader: Any = Loader) -> Any:
    """The value of an untrusted YAML text of mappings, lists and plain values, without aliases; ValueError as
    `check_size`, or yaml.YAMLError."""
    check_size(text, loader, aliases=False)
    return yaml.load(text, loader)


def read_plain_yaml(path: Path, kind: str) -> Any:
    """The content of a file that others may have written, as `parse_plain`; InputError for an unreadable one."""
    try:
        with safe_files.open_file(path) as file:
            return parse_plain(file.read(MOST_BYTES + 1))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not a readable {kind} ({' '.join(str(error).split())})") from None


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
