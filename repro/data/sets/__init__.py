"""The data sets, one file each; `repro.data` describes such a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

from repro.core.fields import Model
from repro.core.registry import PLUGINS
from repro.records.configured import Role

StandinMode = Literal["auto", "never", "always"]


class CommonOptions(Model):
    """The options of every data set; a module lists its own in OPTIONS, and may declare them in a model `_Options`."""

    # whether the stand-in may or must replace the real data; a result says which of them it used
    standin: Annotated[StandinMode, Role(minor=True)] = "auto"


def option_defaults(name: str) -> dict[str, Any]:
    """The default configuration of a data set: the common options', and None for each of its own."""
    common = {option: field.default for option, field in CommonOptions.model_fields.items()}
    return common | dict.fromkeys(PLUGINS["dataset"].load(name).OPTIONS)


def option_annotations(name: str) -> dict[str, Any]:
    """The annotation of each option of a data set that declares it."""
    declared = getattr(PLUGINS["dataset"].load(name), "_Options", CommonOptions)
    return get_type_hints(declared, include_extras=True) | get_type_hints(CommonOptions, include_extras=True)
