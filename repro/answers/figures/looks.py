"""How figures tell things apart: one colour, marker and dash, and one display name, for each kind of number, strategy,
network and part of an iteration in the whole project (`reports/palette.yaml`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Literal

from repro.core import yaml_files
from repro.core.fields import Model, Text, checked
from repro.core.paths import REPORTS

PALETTE = REPORTS / "palette.yaml"
# of what the palette does not know, as a user's own strategy: (Petroff's colours, for the colour-blind too)
SPARE = ("#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#a96b59", "#717581")


class Look(Model):
    """dash: of lines; none: marks alone. called: its display name, where that is not what stands in the results."""

    part = "look"

    colour: Text | None = None
    marker: Literal["o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "d", "p", "h", ""] = "o"
    dash: Literal["-", "--", ":", "-.", "none"] = "-"
    hatch: str = ""
    called: Text | None = None


@cache
def palette() -> dict[str, Look]:
    """Every look by what stands in the results, in the order in which figures show them; read once."""
    sections = yaml_files.entries(PALETTE, "palette")
    return {name: checked(Look, entry, name) for section in sections.values() for name, entry in section.items()}


def look(value: Any, place: int = 0) -> Look:
    """The look of a value; with a spare colour, by its place in a figure, for what the palette does not know."""
    known = palette().get(str(value), Look())
    return known if known.colour else known.model_copy(update={"colour": SPARE[place % len(SPARE)]})


def called(value: Any) -> str:
    """A value's display name."""
    if isinstance(value, float):
        return f"{value:g}"
    return palette().get(str(value), Look()).called or str(value)


def ordered(values: Iterable[Any]) -> list[Any]:
    """Each value once: those of the palette in its order, then all others as they come."""
    import pandas as pd

    found = list(dict.fromkeys(value for value in values if not pd.isna(value)))
    places = {name: place for place, name in enumerate(palette())}
    return sorted(found, key=lambda value: places.get(str(value), len(places)))
