"""Checks of overrides `key=value`: their form, and that the configuration has the entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from repro.core import own_code
from repro.core.credentials import has_credential, redact_credentials
from repro.core.errors import InputError, unknown_name
from repro.core.registry import PLUGINS
from repro.experiment import grid
from repro.experiment.files import GROUPS, common_entries, group_file, group_files, group_names
from repro.experiment.override_keys import key_of

LATER = ("grid", "exclude", "testbeds", "scales")  # parts that contain overrides themselves
# parts whose reader checks the entries: `+` may add any entry
OPEN = ("strategy", "model", "dataset", "imbalance", "optimizer", "probe", *LATER, "inputs")
FORM = re.compile(r"\+{0,2}[\w.-]+")  # of a key; plus signs add an entry to a part


def parts_of(own_file: Mapping[str, Any]) -> set[str]:
    """The top-level names of an experiment's configuration: those of `config.yaml`, of its own file, and the groups."""
    return {*common_entries(), *own_file, *GROUPS} - {"defaults"}


def check_override(
    override: str, known: Collection[str], group_names: Callable[[str], Collection[str]] = group_names
) -> None:
    """InputError for an override of another form, or of an entry outside of the `known` parts. group_names: the names
    of a group's configurations, which a caller with many overrides reads once."""
    key, equals, value = override.partition("=")
    if not equals or not FORM.fullmatch(key):
        raise InputError(f"override '{override}': must be key=value, for instance strategy=pipe_sgd or epochs=3")
    if not override.isprintable():
        raise InputError(f"override {override!r}: has a line break or another control character")
    if has_credential(override):
        raise InputError(
            f"override '{redact_credentials(override)}': looks like a password or token, and would stand in records"
        )
    name = key_of(override)
    part, _, entry = name.partition(".")
    if name == "scale":
        raise InputError(f"override '{override}': use the option --scale {value}")
    if name == "experiment":
        raise InputError(f"override '{override}': an experiment is named first, as in `repro run {value}`")
    if part not in known:
        raise unknown_name("option", name, known)
    if part in GROUPS and entry == "name" and value in group_names(part):
        raise InputError(f"override '{override}': use {part}={value}, which also sets its options")
    users_own = name in PLUGINS and PLUGINS[name].takes(value)
    if name in PLUGINS and not users_own and value not in group_names(name) and _is_place(value):
        data = " or ./FILE.npz" if name == "dataset" else ""
        place = f"use ./FILE.py:NAME{data} for your own (docs/{name}.md)"
        raise InputError(f"{override}: {PLUGINS[name].kind} {value} is no name; {place}")
    if name in GROUPS and not users_own and value not in group_names(name):
        raise unknown_name(name, value, group_names(name))
    if name in GROUPS and not users_own:
        group_file(name, value)  # raises InputError for an invalid file
    if key.startswith("+") and entry and part not in OPEN and entry.split(".")[0] not in (valid := _entries(part)):
        raise unknown_name("option", name, [f"{part}.{each}" for each in valid])


def admit_code(overrides: Iterable[str]) -> None:
    """Allow this process to import the files of code that a user's overrides name; InputError for a missing one."""
    plain, swept = grid.split_overrides(overrides)
    for name, values in [*((key_of(each), [each.partition("=")[2]]) for each in plain), *swept.items()]:
        if name.partition(".")[0] in LATER:
            admit_code(_nested(f"{name}={','.join(values)}"))
        elif name in PLUGINS:
            for value in filter(PLUGINS[name].takes, values):
                own_code.admit_plugin(value)


def _nested(override: str) -> Iterator[str]:
    """The overrides inside an override such as `+grid.method={Mine: ['strategy=./mine.py:Mine']}`."""
    from hydra.core.override_parser.overrides_parser import OverridesParser  # slow to import
    from hydra.errors import HydraException

    try:
        waiting: list[Any] = [{key_of(override): OverridesParser.create().parse_override(override).value()}]
    except HydraException:
        return  # composing it raises the error
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and "=" in value:
            yield value
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            for name, values in value.items():
                if (group := str(name).rpartition(".")[2]) in PLUGINS and isinstance(values, list | dict):
                    yield from (f"{group}={each}" for each in values)  # a factor whose values are the group's


def _is_place(value: str) -> bool:
    return "/" in value or own_code.is_place(value)


def _entries(part: str) -> set[str]:
    """The entries of a part; for a group those of all its files."""
    if part in GROUPS:
        return set().union(*group_files(part).values()) - {"defaults"}
    return set(common_entries().get(part) or ())
