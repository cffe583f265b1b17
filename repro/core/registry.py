"""Plugin registries: modules of the project's packages, and entry points of other packages."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

from repro.core import errors, own_code
from repro.core.errors import InputError, ReproError, unknown_name
from repro.core.fields import check_fields
from repro.core.not_none import not_none
from repro.core.terminal import warn

T = TypeVar("T")


@dataclass(frozen=True)
class Registry:
    """The plugins of a kind: modules PACKAGE/NAME.py, and entry points NAME = "module" or "module:Class" of `group`.

    A user may also name a file or `module:NAME` (`repro.core.own_code`). Where the project's plugins are modules, the
    plugin of another package or of a user may be a class or function.

    Subpackages, modules whose names start with an underscore, and the module of the base class are no plugins. A plugin
    without a file in `paper_configs/` has the defaults of its `Options`, else of the package's `option_defaults(name)`.

    kind     name of the kind in messages
    base     "module:Class": each plugin is a subclass whose `name` is NAME; None: a plugin is a module
    besides  further valid names
    adapter  module that wraps a user's class, function or file as a plugin; None: not supported
    """

    kind: str
    package: str
    group: str
    base: str | None = None
    besides: tuple[str, ...] = ()
    adapter: str | None = None

    def own_modules(self) -> dict[str, str]:
        """name -> module of the project's plugins, without importing them or their package."""
        folders = tuple(_folders(self.package))
        names = _modules_in(folders, tuple(os.stat(folder).st_mtime_ns for folder in folders))
        modules = {name: f"{self.package}.{name}" for name in names if not name.startswith("_")}
        base = self.base.partition(":")[0] if self.base else ""
        return {name: module for name, module in modules.items() if module != base}

    def _registered(self) -> dict[str, str]:
        """name -> module, or "module:Class" for other packages' plugins."""
        return entry_point_values(self.group, tuple(sys.path)) | self.own_modules()

    def names(self) -> list[str]:
        """The names of all registered plugins, sorted."""
        return sorted(self._registered())

    def takes(self, name: str) -> bool:
        """Whether a name is a file or `module:NAME` of a user's plugin."""
        supported = self.adapter is not None or (self.base is not None and not name.endswith(own_code.DATA))
        return supported and own_code.is_place(name) and name not in self._registered()

    def modules(self, name: str) -> list[str]:
        """The modules of a plugin's code: its own, and the one that wraps it. InputError as `module_of`."""
        place = self._place(name)
        return [self.module_of(name), *([self.adapter] if self.adapter and own_code.is_place(place) else [])]

    def module_of(self, name: str) -> str:
        """The module of a plugin; InputError with the valid names for an unknown one."""
        place = self._place(name)
        if place.endswith(own_code.DATA):
            return not_none(self.adapter)
        return own_code.module_of(place) if self.takes(name) else place.partition(":")[0]

    def _place(self, name: str) -> str:
        places = self._registered()
        if name not in places and not self.takes(name):
            raise unknown_name(self.kind, str(name), [*self.besides, *places])
        return places.get(name, name)

    def source_of(self, name: str) -> tuple[Path | None, str]:
        """The file of a plugin of the project or in a user's file, and the name there that the user gave; None for
        another package's, and for data. InputError as `module_of`."""
        place, _, attribute = self._place(name).partition(":")
        if name in self.own_modules():
            return Path(next(iter(_folders(self.package))), f"{name}.py"), ""
        return (Path(place) if self.takes(name) and place.endswith(".py") else None), attribute

    def load(self, name: str) -> Any:
        """The plugin's class or module; InputError naming file and line if it cannot be imported."""
        place = self._place(name)
        try:
            if self.adapter and own_code.is_place(place):
                if not self.takes(name):
                    own_code.admit_plugin(place)  # registered by an installed package
                code = own_code.load_plugin(place)  # before PyTorch, so that its own errors come at once
                return importlib.import_module(self.adapter).adapt_module(name, code)
            if self.takes(name):
                return self._own_class(own_code.load_plugin(place), name)
            module = importlib.import_module(place.partition(":")[0])
        except ReproError:
            raise
        except (Exception, SystemExit) as error:  # plugins may raise anything
            raise InputError(f"{self.kind} {name}: cannot import {place} ({import_failure(error)})") from error
        if self.base is None:
            return module
        named = [each for each in self._classes(module) if getattr(each, "name", None) == name]
        return self._only(named, module, name, f" whose name = '{name}'")

    def usable(self) -> dict[str, Any]:
        """name -> plugin for all that can be imported; a warning for each that cannot."""
        loaded = {}
        for name in self.names():
            try:
                loaded[name] = self.load(name)
            except InputError as error:
                warn(str(error))
        return loaded

    def _own_class(self, code: Any, name: str) -> type:
        """A user's class: `code` itself, or the one that it defines if it is a module."""
        if inspect.ismodule(code):
            defined = [each for each in self._classes(code) if each.__module__ == code.__name__]
            return self._only(defined, code, name, "; if it has several, add :CLASS to the file's name")
        if not inspect.isclass(code):
            raise InputError(f"{self.kind} {name}: is of type {type(code).__name__}; must be a class")
        module = sys.modules[code.__module__]
        return self._only([code] if code in self._classes(module) else [], module, name, "")

    def _classes(self, module: ModuleType) -> list[type]:
        """The classes in a module that are derived from the base."""
        home, _, base = not_none(self.base).partition(":")
        parent = getattr(importlib.import_module(home), base)
        return [each for _, each in inspect.getmembers(module, inspect.isclass) if issubclass(each, parent)]

    def _only(self, classes: list[type], module: ModuleType, name: str, requirement: str) -> type:
        """The only class of the list; InputError for several, none, or one with abstract methods."""
        if len(classes) != 1:
            named = (each for each in self._classes(module) if "name" in each.__dict__)
            present = ", ".join(f"{each.__name__} (name = {each.__dict__['name']!r})" for each in named) or "none"
            must = f"must have a class derived from {not_none(self.base).partition(':')[2]}{requirement}"
            raise InputError(f"{self.kind} {name}: {module.__file__} {must}; it has {present}")
        if missing := sorted(getattr(classes[0], "__abstractmethods__", ())):
            where = f"{classes[0].__name__} in {module.__file__}"
            raise InputError(f"{self.kind} {name}: {where} must define {', '.join(missing)}")
        return classes[0]

    def parse(self, name: str, values: Mapping[str, Any], part: str) -> Any:
        """A plugin's options: its `Options`, or the mapping if it takes keyword arguments; InputError as `parse`."""
        if options := getattr(self.load(name), "Options", None):
            return parse_options(self.kind, name, options, values, part)
        check_names(f"{self.kind} {name}", values, self.defaults(name))
        return dict(values)

    def option_annotations(self, name: str) -> dict[str, Any]:
        """option -> its annotation with metadata, of the options of a plugin that declares any in a readable way."""
        plugin = self.load(name)
        declared = getattr(plugin, "Options", None) or getattr(plugin, "build", None)  # `build`: of a model
        try:
            if declared is None:
                return importlib.import_module(self.package).option_annotations(name)
            return get_type_hints(declared, include_extras=True)
        except (NameError, TypeError, AttributeError):  # a user's annotations for type checkers only
            return {}

    def defaults(self, name: str) -> dict[str, Any]:
        """The default configuration of a plugin, without its name."""
        try:
            if options := getattr(self.load(name), "Options", None):
                if not (isinstance(options, type) and is_dataclass(options)):
                    raise InputError(
                        f"{self.kind} {name}: its Options is a value of type {type(options).__name__}; must be a class "
                        "with @dataclass"
                    )
                return dataclass_defaults(options)
            return importlib.import_module(self.package).option_defaults(name)
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"{self.kind} {name}: {self.module_of(name)} does not declare its options ({error})"
            ) from error


def import_failure(error: BaseException) -> str:
    """The place and reason of a failed import: the last executed line in the folder of the imported file."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    files = [file for file in frames if "importlib" not in file and file not in (__file__, own_code.__file__)]
    if not files and isinstance(error, ImportError):  # the file does not exist
        return str(error)
    folder = os.path.dirname(files[0]) if files else ""
    return errors.describe_error(error, lambda file: os.path.dirname(file) == folder)


# configuration group -> its plugins
PLUGINS = {
    "strategy": Registry("strategy", "repro.strategies", "repro.strategies", "repro.strategies.base:Strategy"),
    "model": Registry("model", "repro.models", "repro.models", adapter="repro.models._blocks"),
    "dataset": Registry("data set", "repro.data.sets", "repro.datasets", adapter="repro.data.sets._own"),
    "imbalance": Registry(
        "imbalance", "repro.algorithms.imbalance", "repro.imbalances", "repro.algorithms.imbalance.base:Imbalance"
    ),
}
TRAIN = "train"  # the program of a training run; other programs are probes
PROBES = Registry("program", "repro.probes", "repro.probes", besides=(TRAIN,))
# kind, with or without plugins -> its module
HOMES = {
    "strategy": "repro.strategies",
    "model": "repro.models",
    "dataset": "repro.data",
    "imbalance": "repro.algorithms.imbalance",
    "metric": "repro.training.evaluation.metrics",
    "configuration": "repro.experiment.schema",
    "optimizer": "repro.experiment.optimizer",
    "launcher": "repro.launch",
    "fabric": "repro.fabric",
}


def home_module(kind: str) -> Any:
    """The module of a kind, for rooms that the import contract keeps from importing it."""
    return importlib.import_module(HOMES[kind])


def module_folder(name: str) -> Path | None:
    """The folder of a package, found without importing it or its parents; None if it does not exist."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    places = (Path(folder, *rest) for folder in (spec.submodule_search_locations or () if spec else ()))
    return next((place for place in places if place.is_dir()), None)


def _folders(package: str) -> Iterable[str]:
    if package in sys.modules:
        return sys.modules[package].__path__
    return [str(not_none(module_folder(package)))]  # importlib's `find_spec` would import the packages around it


@lru_cache(maxsize=16)
def _modules_in(folders: tuple[str, ...], changed_ns: tuple[int, ...]) -> tuple[str, ...]:
    """The names of the modules in folders; changed_ns: when the folders changed, for the cache alone."""
    return tuple(file.name for file in pkgutil.iter_modules(folders) if not file.ispkg)


@lru_cache(maxsize=16)
def entry_point_values(group: str, path: tuple[str, ...]) -> dict[str, str]:
    """name -> value of a group's entry points; all are read at once, because they are in files of every package."""
    return {entry.name: entry.value for entry in _entry_points(path).select(group=group)}


@lru_cache(maxsize=16)
def _entry_points(path: tuple[str, ...]) -> Any:
    return entry_points()


def parse_options(kind: str, name: str, options: type[T], values: Mapping[str, Any], part: str) -> T:
    """A plugin's options, a dataclass or model, from a mapping; InputError for unknown, missing and invalid ones.

    part: the path of the options in the configuration.
    """
    check_names(f"{kind} {name}", values, names_of(options))
    return check_fields(options, values, part, owner=f"{kind} {name}")


def names_of(options: Any) -> Iterable[str]:
    """The fields of a dataclass or model."""
    return getattr(options, "__dataclass_fields__", ()) or getattr(options, "model_fields", ())


def check_names(owner: str, names: Iterable[str], valid: Iterable[str]) -> None:
    """InputError for the first invalid option."""
    if wrong := sorted(set(names) - set(valid)):
        raise InputError(f"{owner} has no option '{wrong[0]}'; valid: {', '.join(sorted(valid)) or 'none'}")


def dataclass_defaults(options: type) -> dict[str, Any]:
    """option -> default of the options of a dataclass that have one."""
    plain = {each.name: each.default for each in fields(options) if each.default is not MISSING}
    factories = {each.name: each.default_factory for each in fields(options)}
    return plain | {name: make() for name, make in factories.items() if make is not MISSING}
