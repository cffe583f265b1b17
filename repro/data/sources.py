"""Which data sets there are, each a module by name, and what to say of one whose files are not there."""

from __future__ import annotations

import importlib
from types import ModuleType

from repro.common.errors import unknown
from repro.data import files

NAMES = ("mnist", "msvd", "ptb", "multi30k", "ucf101", "hyperplane", "cifar10", "cifar100", "imagenet", "imagenet22k")
REGISTRY = {name: f"repro.data.{name}" for name in NAMES}


def names() -> list[str]:
    """The data sets that there are, the smallest first."""
    return list(REGISTRY)


def module(name: str) -> ModuleType:
    """The module of the data set `name`; an unknown name is an InputError that lists the valid ones."""
    if name not in REGISTRY:
        raise unknown("data set", name, REGISTRY)
    return importlib.import_module(REGISTRY[name])


def task(name: str) -> str:
    """What is learned from a data set, one of `repro.data.base.TASKS`; an unknown name is an InputError."""
    return getattr(module(name), "TASK", "classification")


def kind(name: str) -> str:
    """What its samples are, one of `repro.data.base.KINDS`; an unknown name is an InputError."""
    return getattr(module(name), "KIND", "images")


def generated(source: ModuleType) -> bool:
    """Whether a data set is by its definition made from a seed, so that no machine lacks it."""
    return getattr(source, "GENERATED", False)


def missing(name: str, root: str | None = None) -> str:
    """One line: where the data set was looked for, and what to put where."""
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
