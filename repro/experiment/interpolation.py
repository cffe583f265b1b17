"""Interpolations `${...}` of a configuration: their values, and a limit of their size.

`a: ${b}${b}`, `b: ${c}${c}`, ... doubles with each line, in size and in the time that OmegaConf takes for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from typing import Any

from omegaconf import DictConfig, OmegaConf

from repro.core.errors import InputError

MOST = 1_000_000  # characters of a configuration with its values
REFERENCE_COSTS = 100  # characters: OmegaConf takes a tenth of a millisecond for each
REFERENCE = re.compile(r"\$\{([^{}]*)\}")
NESTED = re.compile(r"\$\{[^}]*\$\{")


def resolve_values(config: DictConfig) -> dict[str, Any]:
    """The configuration as plain data, with the values that interpolations name.

    InputError for an interpolation that leads back to itself or contains another, and for a value that is too large.
    """
    plain: Any = OmegaConf.to_container(config, throw_on_missing=True)
    sizes = _Sizes(plain)
    sizes.size(plain, (), ())
    for path in list(_interpolated(plain)) if sizes.known else ():
        node: Any = config
        for step in path:
            node = node[step]  # resolved
        parent = reduce(lambda part, step: part[step], path[:-1], plain)
        parent[path[-1]] = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    return plain


def _interpolated(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of texts with interpolations."""
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _interpolated(each, (*path, name))
    elif isinstance(value, str) and "${" in value:
        yield path


class _Sizes:
    """The sizes of values after their interpolations are resolved, computed once each."""

    def __init__(self, config: Any):
        self._config = config
        self.known: dict[tuple[str, ...], int] = {}  # path of what an interpolation names -> characters

    def size(self, value: Any, path: tuple[str, ...], within: tuple[tuple[str, ...], ...]) -> int:
        """Characters of a value. within: paths of the values whose resolution needs it."""
        if isinstance(value, dict | list):
            entries = value.items() if isinstance(value, dict) else enumerate(value)
            size = sum(self.size(each, (*path, str(name)), within) for name, each in entries)
        else:
            text = str(value)
            if NESTED.search(text):
                raise InputError(f"{'.'.join(path)}={text[:40]}: must have no ${{...}} inside of another")
            size = len(text) + sum(self._size_of(name, path, (*within, path)) for name in REFERENCE.findall(text))
        if size > MOST:
            raise InputError(f"{'.'.join(path)}: is too large with the values of its ${{...}}; must have fewer of them")
        return size

    def _size_of(self, name: str, path: tuple[str, ...], within: tuple[tuple[str, ...], ...]) -> int:
        """Characters of the value that an interpolation at `path` names."""
        up = len(name) - len(name.lstrip("."))  # one dot: beside the value
        target = (*(path[:-up] if up else ()), *re.findall(r"[^.\[\]]+", name))
        if any(target == each[: len(target)] for each in within):
            raise InputError(f"{'.'.join(path)}: ${{{name}}} leads back to itself")
        if target not in self.known:
            value = self._config
            for step in target:
                if isinstance(value, list):
                    value = dict(enumerate(value)).get(int(step) if step.isdigit() else -1)
                else:
                    value = value.get(step) if isinstance(value, dict) else None
            self.known[target] = self.size(value, target, within)
        return REFERENCE_COSTS + self.known[target]
