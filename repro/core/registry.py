"""Registries of plugins: files in a package of ours, and entry points of other packages."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from repro.core import error_location, own_code
from repro.core.errors import InputError, ReproError, unknown
from repro.core.fields import checked
from repro.core.not_none import not_none
from repro.core.warnings import warn

T = TypeVar("T")


@dataclass(frozen=True)
class Registry:
    """The plugins of a kind: files PACKAGE/NAME.py, and entry points NAME = "module" or "module:Class" of `group`.

    A user may name one by its place (`repro.core.own_code`). Where plugins are modules, another package's, or a user's,
    may be a class or function.

    Folders of the package, files whose names start with an underscore, and the file of the base class are no plugins.
    A plugin that has no file in `paper_configs/` is configured by the defaults of its `Options`; one without `Options`
    by the package's `defaults(name)`.

    kind     the name of the kind in messages
    base     "module:Class", of which each plugin is a subclass whose `name` is NAME; None: a plugin is a module
    besides  other valid names where a plugin is named
    own      the module that offers a class, a function or a file of a user's as a plugin; None: there are none
    """

    kind: str
    package: str
    group: str
    base: str | None = None
    besides: tuple[str, ...] = ()
    own: str | None = None

    def _own(self) -> dict[str, str]:
        """name -> module of our plugins, without importing them or their package."""
        files = [file.name for file in pkgutil.iter_modules(_folders(self.package)) if not file.ispkg]
        found = {name: f"{self.package}.{name}" for name in files if not name.startswith("_")}
        base = self.base.partition(":")[0] if self.base else ""
        return {name: module for name, module in found.items() if module != base}

    def _registered(self) -> dict[str, str]:
        """name -> module, or "module:Class" for other packages' plugins."""
        return registered(self.group, tuple(sys.path)) | self._own()

    def names(self) -> list[str]:
        """All plugins' names, sorted."""
        return sorted(self._registered())

    def takes(self, name: str) -> bool:
        """Whether a name is a place of a plugin that is not registered."""
        offered = self.own is not None or (self.base is not None and not name.endswith(own_code.DATA))
        return offered and own_code.is_place(name) and name not in self._registered()

    def modules(self, name: str) -> list[str]:
        """The modules of a plugin's code: its own, and what offers it as one. InputError as `module_of`."""
        own = self._place(name)
        return [self.module_of(name), *([self.own] if self.own and own_code.is_place(own) else [])]

    def module_of(self, name: str) -> str:
        """The module of a plugin; InputError listing the names for an unknown one."""
        place = self._place(name)
        if place.endswith(own_code.DATA):
            return not_none(self.own)
        return own_code.module_of(place) if self.takes(name) else place.partition(":")[0]

    def _place(self, name: str) -> str:
        registered = self._registered()
        if name not in registered and not self.takes(name):
            raise unknown(self.kind, str(name), [*self.besides, *registered])
        return registered.get(name, name)

    def load(self, name: str) -> Any:
        """The plugin's class or module; InputError naming file and line if it cannot be imported."""
        place = self._place(name)
        try:
            if self.own and own_code.is_place(place):
                if not self.takes(name):
                    own_code.admit(place)  # an installed package says so
                return importlib.import_module(self.own).of(name, own_code.load(place))
            if self.takes(name):
                return self._own_class(own_code.load(place), name)
            module = importlib.import_module(place.partition(":")[0])
        except ReproError:
            raise
        except (Exception, SystemExit) as error:  # plugins may raise anything
            raise InputError(f"{self.kind} {name}: cannot import {place} ({import_failure(error)})") from error
        if self.base is None:
            return module
        named = [each for each in self._classes(module) if getattr(each, "name", None) == name]
        return self._one(named, module, name, f" whose name = '{name}'")

    def usable(self) -> dict[str, Any]:
        """name -> plugin for all that can be imported; a warning for each other one."""
        found = {}
        for name in self.names():
            try:
                found[name] = self.load(name)
            except InputError as error:
                warn(str(error))
        return found

    def _own_class(self, found: Any, name: str) -> type:
        """The class at a user's place; of a file alone the one that it defines."""
        if inspect.ismodule(found):
            of_file = [each for each in self._classes(found) if each.__module__ == found.__name__]
            return self._one(of_file, found, name, "; of several, add :CLASS to the file's name")
        module = sys.modules[found.__module__]
        return self._one([found] if found in self._classes(module) else [], module, name, "")

    def _classes(self, module: ModuleType) -> list[type]:
        """The classes in a module that are derived from the base."""
        home, _, base = not_none(self.base).partition(":")
        parent = getattr(importlib.import_module(home), base)
        return [each for _, each in inspect.getmembers(module, inspect.isclass) if issubclass(each, parent)]

    def _one(self, found: list[type], module: ModuleType, name: str, wanted: str) -> type:
        """The one that was found, complete; else InputError with what was wanted and what there is."""
        base = not_none(self.base).partition(":")[2]
        if len(found) != 1:
            own = (each for each in self._classes(module) if "name" in each.__dict__)
            there = (f"{each.__name__} (name = {each.__dict__['name']!r})" for each in own)
            raise InputError(
                f"{self.kind} {name}: {module.__file__} must have a class derived from {base}{wanted}; "
                f"it has {', '.join(there) or 'none'}"
            )
        if missing := sorted(getattr(found[0], "__abstractmethods__", ())):
            raise InputError(
                f"{self.kind} {name}: {found[0].__name__} in {module.__file__} must define {', '.join(missing)}"
            )
        return found[0]

    def parse(self, name: str, given: Mapping[str, Any], part: str) -> Any:
        """A plugin's options: its `Options`, or the mapping if it takes keyword arguments; InputError as `parse`."""
        if options := getattr(self.load(name), "Options", None):
            return parse(self.kind, name, options, given, part)
        check_names(f"{self.kind} {name}", given, self.defaults(name))
        return dict(given)

    def defaults(self, name: str) -> dict[str, Any]:
        """The default configuration of a plugin besides its name."""
        try:
            if options := getattr(self.load(name), "Options", None):
                return defaults(options)
            return importlib.import_module(self.package).defaults(name)
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"{self.kind} {name}: {self.module_of(name)} does not say its options ({error})"
            ) from error


def import_failure(error: BaseException) -> str:
    """Where and why an import failed: the last executed line in the folder of the imported file."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    ran = [file for file in frames if "importlib" not in file and file not in (__file__, own_code.__file__)]
    if not ran and isinstance(error, ImportError):  # the file does not exist
        return str(error)
    folder = os.path.dirname(ran[0]) if ran else ""
    return error_location.describe(error, lambda file: os.path.dirname(file) == folder)


# by the configuration's group
PLUGINS = {
    "strategy": Registry("strategy", "repro.strategies", "repro.strategies", "repro.strategies.base:Strategy"),
    "model": Registry("model", "repro.models", "repro.models", own="repro.models._own"),
    "dataset": Registry("data set", "repro.data.sets", "repro.datasets", own="repro.data.sets._own"),
    "imbalance": Registry(
        "imbalance", "repro.algorithms.imbalance", "repro.imbalances", "repro.algorithms.imbalance.base:Imbalance"
    ),
}
TRAIN = "train"  # the program of a run that is no probe
PROBES = Registry("program", "repro.probes", "repro.probes", besides=(TRAIN,))
# kind -> its module, also for kinds without plugins
HOMES = {
    "strategy": "repro.strategies",
    "model": "repro.models",
    "dataset": "repro.data",
    "imbalance": "repro.algorithms.imbalance",
    "metric": "repro.training.evaluation.metrics",
    "launcher": "repro.launch",
}


def home(kind: str) -> Any:
    """The module of a kind, for packages that must not import it."""
    return importlib.import_module(HOMES[kind])


def module_folder(name: str) -> Path | None:
    """The folder of a package, found without importing it or its parents; None where there is none."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    places = (Path(folder, *rest) for folder in (spec.submodule_search_locations or () if spec else ()))
    return next((place for place in places if place.is_dir()), None)


def _folders(package: str) -> Iterable[str]:
    if package in sys.modules:
        return sys.modules[package].__path__
    return not_none(not_none(importlib.util.find_spec(package)).submodule_search_locations)


@lru_cache(maxsize=16)
def registered(group: str, path: tuple[str, ...]) -> dict[str, str]:
    """name -> value of a group's entry points; cached, because this reads files of all installed packages."""
    return {entry.name: entry.value for entry in entry_points(group=group)}


def parse(kind: str, name: str, options: type[T], given: Mapping[str, Any], part: str) -> T:
    """A plugin's options, a dataclass or model, from a mapping; InputError for unknown and unusable ones.

    part: their place in the configuration.
    """
    check_names(f"{kind} {name}", given, names_of(options))
    return checked(options, given, part)


def names_of(options: Any) -> Iterable[str]:
    """The fields of a dataclass or model."""
    return getattr(options, "__dataclass_fields__", ()) or getattr(options, "model_fields", ())


def check_names(what: str, given: Iterable[str], valid: Iterable[str]) -> None:
    """InputError naming the first invalid option."""
    if wrong := sorted(set(given) - set(valid)):
        raise InputError(f"{what} has no option '{wrong[0]}'; valid: {', '.join(sorted(valid)) or 'none'}")


def defaults(options: type) -> dict[str, Any]:
    """The options of a plugin's dataclass that have a default, with it."""
    given = {field.name: field.default for field in fields(options) if field.default is not MISSING}
    made = {field.name: field.default_factory() for field in fields(options) if field.default_factory is not MISSING}
    return given | made
