"""The strategies, one file each. A file `strategies/NAME.py` with a class whose `name` is NAME is a strategy.

Others register theirs through the entry-point group `repro.strategies` (NAME = "module:Class"). What several share is
in `strategies/shared/`.
"""

from __future__ import annotations

from repro.common.registry import Registry
from strategies.base import Strategy

REGISTRY = Registry("strategy", __name__, "repro.strategies", Strategy)


def names() -> list[str]:
    return REGISTRY.names()


def module_of(name: str) -> str:
    """The module that holds a strategy; InputError listing the names for an unknown one."""
    return REGISTRY.module_of(name)


def load(name: str) -> type[Strategy]:
    """The strategy class of that name."""
    return REGISTRY.load(name)
