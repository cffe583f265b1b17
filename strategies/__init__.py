"""The strategies, one file each. A file `strategies/NAME.py` with a class whose `name` is NAME is a strategy.

Others register theirs through the entry-point group `repro.strategies` (NAME = "module:Class"). What several share is
in `strategies/shared/`.
"""

from __future__ import annotations

from typing import Any

from repro.core import registry
from repro.strategies.base import Strategy

REGISTRY = registry.PLUGINS["strategy"]


def names() -> list[str]:
    return REGISTRY.names()


def module_of(name: str) -> str:
    """The module that holds a strategy; InputError listing the names for an unknown one."""
    return REGISTRY.module_of(name)


def load(name: str) -> type[Strategy]:
    """The strategy class of that name."""
    return REGISTRY.load(name)


def defaults(name: str) -> dict[str, Any]:
    """A strategy's options as its dataclass has them."""
    return registry.defaults(load(name).Options)
