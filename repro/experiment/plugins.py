"""The plugins that a configuration chooses by name, each with its options: `{name: pipe_sgd, K: 2}`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationInfo

from repro.core.errors import InputError
from repro.core.registry import PLUGINS

CHECKED: dict[str, Any] = {}  # the context of a configuration that was checked before


@dataclass(frozen=True)
class Plugin:
    """options: the plugin's dataclass `Options`; a mapping where it takes keywords, as models and data sets do, and
    in a configuration that was checked before."""

    group: str
    name: str
    options: Any

    def plain(self) -> dict[str, Any]:
        """As a configuration file has it."""
        return {"name": self.name} | self.plain_options()

    def plain_options(self) -> dict[str, Any]:
        """The same without the name."""
        if not is_dataclass(self.options):
            return dict(self.options)
        return TypeAdapter(type(self.options)).dump_python(self.options, mode="json")

    def changed(self) -> dict[str, Any]:
        """The same without options at their defaults."""
        defaults = PLUGINS[self.group].defaults(self.name)
        return {name: value for name, value in self.plain().items() if name not in defaults or value != defaults[name]}


def choice(group: str, part: str = "") -> Callable[[Any], Plugin]:
    """What makes a configuration's part of that group a plugin; InputError for a name or option that there is not.

    part: its name, where it is not the group's.
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
    """Validator of a configuration's entry: `choice`; in a configuration checked before, options stay as they are."""

    def chosen(entry: Any, info: ValidationInfo) -> Plugin:
        if info.context is CHECKED:
            return Plugin(group, entry["name"], {key: value for key, value in entry.items() if key != "name"})
        return choice(group)(entry)

    return PlainValidator(chosen)


PLAIN = PlainSerializer(Plugin.plain)
Strategy = Annotated[Plugin, _entry("strategy"), PLAIN]
Model = Annotated[Plugin, _entry("model"), PLAIN]
Dataset = Annotated[Plugin, _entry("dataset"), PLAIN]
Imbalance = Annotated[Plugin, _entry("imbalance"), PLAIN]
