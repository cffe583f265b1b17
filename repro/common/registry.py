"""Plugins of one kind: a file each in a package of ours, those of others through an entry-point group."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from repro.common.errors import InputError, unknown


@dataclass(frozen=True)
class Registry:
    """A file PACKAGE/NAME.py is a plugin, and so is an entry point NAME = "module" or NAME = "module:Class" of `group`.

    No plugins are folders of the package, files whose name starts with an underscore, and the file of the base class.

    kind: what messages call one; base: the class of which each has a subclass, whose `name` is NAME; None where the
    module itself is the plugin.
    """

    kind: str
    package: str
    group: str
    base: type | None = None

    def _own(self) -> dict[str, str]:
        """name -> module of ours, without importing any plugin."""
        path = importlib.import_module(self.package).__path__
        found = {m.name: f"{self.package}.{m.name}" for m in pkgutil.iter_modules(path) if not m.ispkg}
        base = self.base.__module__ if self.base else ""
        return {name: module for name, module in found.items() if not name.startswith("_") and module != base}

    def _registered(self) -> dict[str, str]:
        """The same of all, others' as "module" or "module:Class"."""
        return {entry.name: entry.value for entry in entry_points(group=self.group)} | self._own()

    def names(self) -> list[str]:
        """All plugins' names, sorted."""
        return sorted(self._registered())

    def module_of(self, name: str) -> str:
        """The module that holds a plugin; InputError listing the names for an unknown one."""
        if (own := self._own().get(name)) is not None:  # entry points are in files of all installed packages
            return own
        registered = self._registered()
        if name not in registered:
            raise unknown(self.kind, str(name), registered)
        return registered[name].partition(":")[0]

    def module(self, name: str) -> ModuleType:
        """The same, imported; InputError also for an entry point of a module that is not there."""
        place = self.module_of(name)
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise InputError(f"{self.kind} {name}: cannot import {place} ({error})") from error

    def load(self, name: str) -> type:
        """The class of that name."""
        module = self.module(name)
        for _, candidate in inspect.getmembers(module, inspect.isclass):
            if issubclass(candidate, self.base) and getattr(candidate, "name", None) == name:
                return candidate
        raise unknown(f"{self.kind} (no class with that name in module {module.__name__})", name, self.names())


def parse(kind: str, name: str, options: type, given: Mapping[str, Any]) -> Any:
    """A plugin's options, a dataclass, from a mapping; InputError naming an unknown one and the valid ones."""
    valid = {field.name for field in fields(options)}
    if wrong := sorted(set(given) - valid):
        allowed = ", ".join(sorted(valid)) or "none"
        raise InputError(f"{kind} {name} has no option '{wrong[0]}'; valid: {allowed}")
    return options(**given)
