"""The palette (`reports/palette.yaml`): colour, marker, dash and display name of each kind of number, strategy, network
and part of an iteration, the same in all figures; and seaborn's theme for all of them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from repro.answers.claims.verdict import WORDS
from repro.core import user_files
from repro.core.fields import Model, Text, check_fields
from repro.core.paths import REPORTS

if TYPE_CHECKING:
    import pandas as pd

PALETTE = REPORTS / "palette.yaml"
# for values that are not in the palette, such as a user's strategy (Petroff's colours for the colour-blind, one darker)
SPARE = ("#3f90da", "#c98300", "#bd1f01", "#832db6", "#a96b59", "#717581")
DASHES = {"-": "", "--": (4, 1.5), ":": (1, 1), "-.": (3, 1.25, 1.5, 1.25), "none": ""}  # as seaborn takes them
WIDTH = 8.5  # inches; the same for all figures, so that their type has one size
LETTERS = 13.9  # of the type of ticks and legends, in an inch
NARROW = 3.3  # inches, of the same figures for a phone, on which their type is as large as the text around them


class Look(Model):
    """dash: of lines; `none`: markers only. width: of lines, in points. called: the display name, if it differs from
    the name in the results."""

    part = "look"

    colour: Text | None = None
    marker: Literal["o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "d", "p", "h", ""] = "o"
    dash: Literal["-", "--", ":", "-.", "none"] = "-"
    width: float = 1.3
    called: Text | None = None


def set_theme() -> None:
    """Draw without a display, in seaborn's theme; text may come from results, so none is a formula."""
    import matplotlib
    import seaborn as sns

    matplotlib.use("Agg")
    settings = {"grid.color": "0.9", "axes.edgecolor": "0.6", "axes.labelpad": 2, "text.parse_math": False}
    sns.set_theme("paper", "whitegrid", SPARE, rc=settings)


@cache
def read_palette() -> dict[str, Look]:
    """Name in the results -> look, in the order of legends; read once."""
    sections = user_files.read_entries(PALETTE, "palette").values()
    verdicts = {word: {"colour": look.colour, "marker": look.marker} for word, look in WORDS.items() if look.colour}
    return {name: check_fields(Look, look, name) for section in (*sections, verdicts) for name, look in section.items()}


def look_of(value: Any, place: int = 0) -> Look:
    """The look of a value; a value outside the palette gets a spare colour by its place in the figure."""
    known = read_palette().get(str(value), Look())
    return known if known.colour else known.model_copy(update={"colour": SPARE[place % len(SPARE)]})


def display_name(value: Any) -> str:
    """A value's display name."""
    if isinstance(value, float):
        return f"{value:g}"
    return read_palette().get(str(value), Look()).called or str(value)


def fit_text(text: str, inches: float, letters: float = LETTERS) -> str:
    """A text in lines of so many inches. letters: of its type in an inch."""
    return "\n".join(
        textwrap.fill(line, max(1, int(inches * letters)), break_long_words=False) for line in text.split("\n")
    )


def columns_of_legend(names: Collection[str], width: float) -> int:
    """How many columns of a legend fit into so many inches."""
    return max(1, min(len(names), int(LETTERS * width) // (max(map(len, names), default=0) + 8)))


def palette_order(values: Iterable[Any]) -> list[Any]:
    """Each value once: first those of the palette, in its order."""
    import pandas as pd

    distinct = list(dict.fromkeys(value for value in values if not pd.isna(value)))
    places = {name: place for place, name in enumerate(read_palette())}
    return sorted(distinct, key=lambda value: places.get(str(value), len(places)))


def named_categories(
    values: pd.Series, order: Iterable[Any] = (), letters: int = 999
) -> tuple[pd.Series, Mapping[str, Look]]:
    """The display names of values as a categorical in the palette's order, or in `order`; and name -> look.

    letters: in a line of a name.
    """
    import pandas as pd

    distinct = list(order) or palette_order(values)
    names = {value: textwrap.fill(display_name(value), letters, break_long_words=False) for value in distinct}
    by_name = {name: look_of(value, place) for place, (value, name) in enumerate(names.items())}
    return values.map(names).astype(pd.CategoricalDtype(list(by_name), ordered=True)), by_name
