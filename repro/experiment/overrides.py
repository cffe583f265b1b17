"""What an override `key=value` may set: entries that the configuration has, in plain words."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from repro.core import own_code, yaml_files
from repro.core.errors import InputError, unknown
from repro.core.paths import CONFIGS
from repro.core.registry import PLUGINS
from repro.experiment.files import GROUPS, group_file, group_files, group_names

LATER = ("grid", "exclude", "testbeds", "scales")  # parts of an experiment that hold overrides themselves
# parts whose entries are checked by those who read them, whichever those are: `+` may add some
OPEN = ("strategy", "model", "dataset", "imbalance", "optimizer", "probe", *LATER)
FORM = re.compile(r"\+{0,2}[\w.-]+")  # of a key; plus signs add an entry to a part


def parts_of(own_file: Mapping[str, Any]) -> set[str]:
    """The parts of an experiment's configuration: everyone's, and values that its own file gives a name."""
    return {*_everyones(), *own_file, *GROUPS} - {"defaults"}


def check_override(override: str, known: Collection[str]) -> None:
    """InputError for an override that is not of the form, or sets what is in none of the `known` parts."""
    key, equals, value = override.partition("=")
    if not equals or not FORM.fullmatch(key):
        raise InputError(f"override '{override}': must be key=value, for instance strategy=pipe_sgd or epochs=3")
    if not override.isprintable():
        raise InputError(f"override {override!r}: has a line break or another control character")
    name = key.lstrip("+")
    part, _, entry = name.partition(".")
    if name == "scale":  # a label of what the size sets
        raise InputError(f"override '{override}': a size of the experiment is chosen by --scale {value}")
    if name == "experiment":
        raise InputError(f"override '{override}': an experiment is named first, as in `repro run {value}`")
    if part not in known:
        raise unknown("option", name, known)
    if part in GROUPS and entry == "name" and value in group_names(part):
        raise InputError(f"override '{override}': {part}={value} is meant, which brings its options too")
    if name in PLUGINS and PLUGINS[name].takes(value):
        own_code.admit(value)
    elif name in PLUGINS and value not in group_names(name) and ("/" in value or own_code.is_place(value)):
        raise InputError(f"{override}: {PLUGINS[name].kind} {value} is no name; {_place_of_own(name)}")
    elif name in GROUPS and value not in group_names(name):
        raise unknown(name, value, group_names(name))
    elif name in GROUPS:
        group_file(name, value)  # says what is wrong with it
    if key.startswith("+") and entry and part not in OPEN and entry.split(".")[0] not in (valid := _entries(part)):
        raise unknown("option", name, [f"{part}.{each}" for each in valid])


def _place_of_own(kind: str) -> str:
    """How a plugin of a user's is named."""
    data = " or ./FILE.npz" if kind == "dataset" else ""
    return f"one of your own is named ./FILE.py:NAME{data} (docs/{kind}.md)"


def _entries(part: str) -> set[str]:
    """The entries of a part: those of all its files, where it is a group of files."""
    if part in GROUPS:
        return set().union(*group_files(part).values()) - {"defaults"}
    return set(_everyones().get(part) or ())


@cache
def _everyones() -> Mapping[str, Any]:
    return yaml_files.entries(CONFIGS / "config.yaml")
