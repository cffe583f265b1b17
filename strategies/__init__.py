"""The strategies, one file each. A file `strategies/NAME.py` with a class whose `name` is NAME is a strategy.

Others register theirs through the entry-point group `repro.strategies` (NAME = "module:Class").
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib.metadata import entry_points

from repro.errors import unknown
from strategies.base import Strategy

GROUP = "repro.strategies"
NOT_STRATEGIES = {"base", "data_parallel", "parameter_server", "segmented"}


def _registered() -> dict[str, str]:
    """name -> "module" or "module:Class", without importing any."""
    own = {m.name: f"strategies.{m.name}" for m in pkgutil.iter_modules(__path__) if m.name not in NOT_STRATEGIES}
    return {entry.name: entry.value for entry in entry_points(group=GROUP)} | own


def names() -> list[str]:
    return sorted(_registered())


def module_of(name: str) -> str:
    """The module that holds a strategy; InputError listing the names for an unknown one."""
    registered = _registered()
    if name not in registered:
        raise unknown("strategy", name, registered)
    return registered[name].partition(":")[0]


def load(name: str) -> type[Strategy]:
    """The strategy class of that name."""
    module = importlib.import_module(module_of(name))
    for _, candidate in inspect.getmembers(module, inspect.isclass):
        if issubclass(candidate, Strategy) and getattr(candidate, "name", None) == name:
            return candidate
    raise unknown(f"strategy (no class with that name in module {module.__name__})", name, names())
