"""The registered data sets, each a module, and the message for missing files."""

from __future__ import annotations

from types import ModuleType

from repro.core.registry import PLUGINS
from repro.data import files

REGISTRY = PLUGINS["dataset"]


def dataset_names() -> list[str]:
    """The names of all data sets."""
    return REGISTRY.names()


def load_source(name: str) -> ModuleType:
    """The imported module of a data set; InputError listing the names for an unknown one."""
    return REGISTRY.load(name)


def task_of(name: str) -> str:
    """The task of a data set, one of `repro.data.base.TASKS`."""
    return getattr(load_source(name), "TASK", "classification")


def input_kind(name: str) -> str:
    """The kind of its inputs, one of `repro.data.base.KINDS`."""
    return getattr(load_source(name), "KIND", "images")


def is_generated(source: ModuleType) -> bool:
    """Whether a data set is generated from a seed by definition."""
    return getattr(source, "GENERATED", False)


def missing_message(name: str, root: str | None = None) -> str:
    """The message for missing files: the searched folders, and where to put which files."""
    source, searched = load_source(name), ", ".join(map(str, files.search_places(root)))
    if is_generated(source):
        return f"data set '{name}' is generated: there is nothing to download, and nothing to put anywhere"
    not_found, folder = f"data set '{name}' not found (looked in {searched})", files.cache_root() / name
    if not source.FILES:
        other = f"the folder {name} of one that REPRO_DATA names"
        return f"{not_found}: {source.MISSING} into {folder}, or into {other}"
    needed = ", ".join(source.FILES)
    return f"{not_found}: run `repro data fetch {name}`, or put {needed} into {folder}, or set REPRO_DATA"
