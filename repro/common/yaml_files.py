"""The project's own YAML files: each state of a file is parsed once, by libyaml, which is much faster than Python."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may be built without libyaml


def read(path: Path) -> Any:
    """What a file holds, as values of the caller's own. Raises OSError and yaml.YAMLError."""
    state = path.stat()
    return pickle.loads(_read(path, state.st_mtime_ns, state.st_size))


@cache
def _read(path: Path, modified_ns: int, size: int) -> bytes:
    return pickle.dumps(yaml.load(path.read_text(encoding="utf-8"), LOADER))
