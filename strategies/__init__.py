"""The strategies, one file each. A file `strategies/NAME.py` with a class whose `name` is NAME is a strategy.

Others register theirs through the entry-point group `repro.strategies` (NAME = "module:Class").
"""

from __future__ import annotations

from repro.common.registry import Registry
from strategies.base import Strategy

NOT_STRATEGIES = {
    "base", "data_parallel", "densities", "eager", "parameter_server", "pipeline", "segmented", "sharded_server",
    "sparsified", "stage_updates",
}  # fmt: skip
REGISTRY = Registry("strategy", Strategy, __name__, "repro.strategies", NOT_STRATEGIES)


def names() -> list[str]:
    return REGISTRY.names()


def module_of(name: str) -> str:
    """The module that holds a strategy; InputError listing the names for an unknown one."""
    return REGISTRY.module_of(name)


def load(name: str) -> type[Strategy]:
    """The strategy class of that name."""
    return REGISTRY.load(name)
