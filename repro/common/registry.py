"""Plugins of one kind: a file each in a package of ours, those of others through an entry-point group."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from repro.common.errors import InputError, unknown


@dataclass(frozen=True)
class Registry:
    """A file PACKAGE/NAME.py with a class whose `name` is NAME is a plugin; or an entry point NAME = "module:Class".

    kind: what messages call one; base: the class that all derive from; others: modules of the package that are none.
    """

    kind: str
    base: type
    package: str
    group: str
    others: Collection[str] = ()

    def _own(self) -> dict[str, str]:
        """name -> module of ours, without importing any plugin."""
        path = importlib.import_module(self.package).__path__
        return {m.name: f"{self.package}.{m.name}" for m in pkgutil.iter_modules(path) if m.name not in self.others}

    def _registered(self) -> dict[str, str]:
        """The same of all, others' as "module" or "module:Class"."""
        return {entry.name: entry.value for entry in entry_points(group=self.group)} | self._own()

    def names(self) -> list[str]:
        return sorted(self._registered())

    def module_of(self, name: str) -> str:
        """The module that holds a plugin; InputError listing the names for an unknown one."""
        if (own := self._own().get(name)) is not None:  # entry points are in files of all installed packages
            return own
        registered = self._registered()
        if name not in registered:
            raise unknown(self.kind, str(name), registered)
        return registered[name].partition(":")[0]

    def load(self, name: str) -> type:
        """The class of that name."""
        module = importlib.import_module(self.module_of(name))
        for _, candidate in inspect.getmembers(module, inspect.isclass):
            if issubclass(candidate, self.base) and getattr(candidate, "name", None) == name:
                return candidate
        raise unknown(f"{self.kind} (no class with that name in module {module.__name__})", name, self.names())


@dataclass(frozen=True)
class Modules:
    """Plugins that are modules, a file PACKAGE/NAME.py each; those whose names begin with an underscore are shared.

    kind: what messages call one; besides: names that are valid where such a plugin is named, and none.
    """

    kind: str
    package: str
    besides: Collection[str] = ()

    def names(self) -> list[str]:
        path = importlib.import_module(self.package).__path__
        return [module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_")]

    def load(self, name: str) -> ModuleType:
        """The module of that name; InputError listing the names for an unknown one."""
        if name not in self.names():
            raise unknown(self.kind, name, [*self.besides, *self.names()])
        return importlib.import_module(f"{self.package}.{name}")


def parse(kind: str, name: str, options: type, given: Mapping[str, Any]) -> Any:
    """A plugin's options, a dataclass, from a mapping; InputError naming an unknown one and the valid ones."""
    valid = {field.name for field in fields(options)}
    if wrong := sorted(set(given) - valid):
        allowed = ", ".join(sorted(valid)) or "none"
        raise InputError(f"{kind} {name} has no option '{wrong[0]}'; valid: {allowed}")
    return options(**given)


def defaults(options: type) -> dict[str, Any]:
    """Each option of a plugin's dataclass that has a default: that value."""
    given = {field.name: field.default for field in fields(options) if field.default is not MISSING}
    made = {field.name: field.default_factory() for field in fields(options) if field.default_factory is not MISSING}
    return given | made
