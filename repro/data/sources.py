"""The registered data sets, each a module, and the message for missing files."""

from __future__ import annotations

from types import ModuleType

from repro.core.registry import PLUGINS
from repro.data import files

REGISTRY = PLUGINS["dataset"]


def names() -> list[str]:
    return REGISTRY.names()


def module_of(name: str) -> str:
    """The module name of a data set; InputError listing the names for an unknown one."""
    return REGISTRY.module_of(name)


def module(name: str) -> ModuleType:
    """The imported module of a data set."""
    return REGISTRY.load(name)


def task(name: str) -> str:
    """The task of a data set, one of `repro.data.base.TASKS`; InputError for an unknown name."""
    return getattr(module(name), "TASK", "classification")


def kind(name: str) -> str:
    """The kind of its inputs, one of `repro.data.base.KINDS`; InputError for an unknown name."""
    return getattr(module(name), "KIND", "images")


def generated(source: ModuleType) -> bool:
    """Whether a data set is generated from a seed by definition."""
    return getattr(source, "GENERATED", False)


def missing(name: str, root: str | None = None) -> str:
    """One line: the searched folders, and where to put which files."""
    looked = ", ".join(str(place) for place in files.places(root))
    if generated(module(name)):
        return f"data set '{name}' is generated: there is nothing to download, and nothing to put anywhere"
    if not module(name).FILES:
        return (
            f"data set '{name}' not found (looked in {looked}): {module(name).MISSING} "
            f"into {files.cache_root() / name}, or into the folder {name} of one that REPRO_DATA names"
        )
    return (
        f"data set '{name}' not found (looked in {looked}): run `repro data fetch {name}`, or put "
        f"{', '.join(module(name).FILES)} into {files.cache_root() / name}, or set REPRO_DATA"
    )
