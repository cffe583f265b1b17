"""The roles of the options of data sets; `option_defaults` of the package has their defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

from repro.core.registry import PLUGINS
from repro.records.configured import Role


class Common:
    """The options of every data set."""

    # whether the stand-in may or must replace the real data; a result says which of them it used
    standin: Annotated[Literal["auto", "never", "always"], Role(minor=True)]


def option_annotations(name: str) -> dict[str, Any]:
    """The annotation of each option of a data set, of its own where it has a model `_Options` of them."""
    own = getattr(PLUGINS["dataset"].load(name), "_Options", Common)
    return get_type_hints(own, include_extras=True) | get_type_hints(Common, include_extras=True)
