"""Plugins in a configuration, with their options: `{name: pipe_sgd, K: 2}`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, ValidationInfo

from repro.core.errors import InputError
from repro.core.fields import type_adapter
from repro.core.registry import PLUGINS
from repro.records.configured import Role, declared_role

CHECKED: dict[str, Any] = {}  # validation context of a configuration that was checked before


@dataclass(frozen=True)
class Plugin:
    """A chosen plugin.

    options: its dataclass `Options`; a mapping if it takes keyword arguments, as models and data sets do, or if the
    configuration was checked before.
    """

    group: str
    name: str
    options: Any

    def plain(self) -> dict[str, Any]:
        """Name and options as plain data, as in a configuration file."""
        return {"name": self.name} | self.plain_options()

    def plain_options(self) -> dict[str, Any]:
        """The options as plain data."""
        if not is_dataclass(self.options):
            return dict(self.options)
        kind: type = type(self.options)
        return type_adapter(kind).dump_python(self.options, mode="json")

    def roles(self) -> dict[str, Role]:
        """Option -> the role that the plugin declares beside it."""
        return _roles(self.group, self.name)

    def keyed(self) -> dict[str, Any]:
        """Name and options as plain data, as they count in a key: by default those that are not at their defaults."""
        defaults, roles = PLUGINS[self.group].defaults(self.name), self.roles()

        def counts(name: str, value: Any) -> bool:
            keyed = roles.get(name, Role()).keyed
            return keyed == "always" or (keyed != "never" and (name not in defaults or value != defaults[name]))

        return {name: value for name, value in self.plain().items() if counts(name, value)}


def _roles(group: str, name: str) -> dict[str, Role]:
    return {option: declared_role(kind) for option, kind in PLUGINS[group].option_annotations(name).items()}


def plugin_maker(group: str, part: str = "") -> Callable[[Any], Plugin]:
    """A function that makes a plugin of a configuration's part; it raises InputError for an unknown name or option.

    part: path of the part, if it is not the group.
    """
    part = part or group

    def chosen(entry: Any) -> Plugin:
        if isinstance(entry, Plugin):
            return entry
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise InputError(f"{part}={entry}: must be entries, as {part}.NAME=value sets one, a name among them")
        options = {key: value for key, value in entry.items() if key != "name"}
        return Plugin(group, entry["name"], PLUGINS[group].parse(entry["name"], options, part))

    return chosen


def _entry(group: str) -> PlainValidator:
    """A pydantic validator: `plugin_maker`, or in a configuration checked before, the options unchanged."""

    def chosen(entry: Any, info: ValidationInfo) -> Plugin:
        if info.context is CHECKED:
            return Plugin(group, entry["name"], {key: value for key, value in entry.items() if key != "name"})
        return plugin_maker(group)(entry)

    return PlainValidator(chosen)


PLAIN = PlainSerializer(Plugin.plain)
Strategy = Annotated[Plugin, _entry("strategy"), PLAIN]
Model = Annotated[Plugin, _entry("model"), PLAIN]
Dataset = Annotated[Plugin, _entry("dataset"), PLAIN]
Imbalance = Annotated[Plugin, _entry("imbalance"), PLAIN]
