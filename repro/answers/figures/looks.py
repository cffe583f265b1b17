"""The palette (`reports/palette.yaml`): colour, marker, dash and display name of each kind of number, strategy, network
and part of an iteration, the same in all figures."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Literal

from repro.core import yaml_files
from repro.core.fields import Model, Text, checked
from repro.core.paths import REPORTS

PALETTE = REPORTS / "palette.yaml"
# for values that are not in the palette, such as a user's strategy (Petroff's colours, safe for the colour-blind)
SPARE = ("#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#a96b59", "#717581")


class Look(Model):
    """dash: of lines; `none`: markers only. called: the display name, if it differs from the name in the results."""

    part = "look"

    colour: Text | None = None
    marker: Literal["o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "d", "p", "h", ""] = "o"
    dash: Literal["-", "--", ":", "-.", "none"] = "-"
    hatch: str = ""
    called: Text | None = None


@cache
def palette() -> dict[str, Look]:
    """Name in the results -> look, in the order of legends; read once."""
    sections = yaml_files.entries(PALETTE, "palette")
    return {name: checked(Look, entry, name) for section in sections.values() for name, entry in section.items()}


def look(value: Any, place: int = 0) -> Look:
    """The look of a value; a value outside the palette gets a spare colour by its place in the figure."""
    known = palette().get(str(value), Look())
    return known if known.colour else known.model_copy(update={"colour": SPARE[place % len(SPARE)]})


def called(value: Any) -> str:
    """A value's display name."""
    if isinstance(value, float):
        return f"{value:g}"
    return palette().get(str(value), Look()).called or str(value)


def ordered(values: Iterable[Any]) -> list[Any]:
    """Each value once: first those of the palette, in its order."""
    import pandas as pd

    distinct = list(dict.fromkeys(value for value in values if not pd.isna(value)))
    places = {name: place for place, name in enumerate(palette())}
    return sorted(distinct, key=lambda value: places.get(str(value), len(places)))
