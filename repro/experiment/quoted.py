"""Numbers that a paper prints of an experiment's variants: its file's `quoted_numbers`, which points into
`reference/<paper>.csv`.

    quoted:
      - {column: final, place: Figure 4, row: MNIST-MLP, quantity: final top-1}
      - column: over                       # final: the score; ms: an iteration; over: the speed-up over a variant
        over: bsp
        place: Table 1
        row: "VGG16, 4 (A)"
        quantity: speed-up over BSP
        variants: {pipedream: PipeDream}   # our name -> the table's; by default the names are the same

Only the table contains the number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from repro.core.errors import InputError
from repro.core.fields import Model, Text, check_fields
from repro.experiment.files import own_file, place_of
from repro.records.paper_numbers import table

# column -> unit in the table -> conversion of the table's value into the column's
UNITS: dict[str, dict[str, Callable[[float], float]]] = {
    "final": {"": float, "%": lambda value: value / 100},
    "ms": {"s": lambda value: 1e3 * value, "steps/s": lambda value: 1e3 / value},
    "over": {"x": float},
}


class Quoted(Model):
    """An entry of `quoted_numbers`."""

    part = "quoted"

    column: Literal["final", "ms", "over"]
    place: Text
    row: Text
    quantity: Text
    over: Text | None = None
    variants: Annotated[dict[Text, Text] | None, Field(min_length=1)] = None

    @model_validator(mode="after")
    def _baseline(self) -> Quoted:
        if (self.column == "over") != (self.over is not None):
            raise InputError("quoted: `over` names a variant where the column is over, and only there")
        return self

    @property
    def title(self) -> str:
        """The title of our column that the paper's number belongs to."""
        return f"over {self.over}" if self.over else self.column


def quoted_numbers(experiment: str) -> dict[str, dict[str, float]]:
    """Our column -> variant -> the paper's number; {} if the experiment's file quotes none.

    InputError with file and entry for an invalid entry, and for a number that the table does not have.
    """
    return {column: numbers for column, (numbers, _) in quoted_with_places(experiment).items()}


def quoted_with_places(experiment: str) -> dict[str, tuple[dict[str, float], str]]:
    """As `quoted_numbers`, each column with the places and rows of its numbers in the paper."""
    numbers: dict[str, dict[str, float]] = {}
    places: dict[str, dict[str, list[str]]] = {}
    for number, value in enumerate(own_file(experiment).get("quoted") or (), start=1):
        try:
            entry = check_fields(Quoted, value)
            numbers.setdefault(entry.title, {}).update(_numbers(experiment.split("/")[0], entry))
        except InputError as error:
            file = place_of("experiment", experiment)
            raise InputError(f"{file}: {experiment}: quoted, entry {number}: {error}") from None
        rows = places.setdefault(entry.title, {}).setdefault(entry.place, [])
        rows += [entry.row] if entry.row not in rows else []
    return {
        column: (values, "; ".join(f"{place}, {', '.join(rows)}" for place, rows in places[column].items()))
        for column, values in numbers.items()
    }


def _numbers(paper: str, entry: Quoted) -> dict[str, float]:
    where = (entry.place, entry.row, entry.quantity)
    rows = {row["variant"]: row for row in table(paper) if (row["place"], row["row"], row["quantity"]) == where}
    names = entry.variants or {printed: printed for printed in rows}
    if missing := [variant for variant in names.values() if variant not in rows] or ([] if rows else ["any variant"]):
        raise InputError(f"{paper}.csv has nothing of {missing[0]} in {', '.join(where)}")
    return {variant: _value(entry.column, rows[printed]) for variant, printed in names.items()}


def _value(column: str, row: dict[str, Any]) -> float:
    units = UNITS[column]
    if row["unit"] not in units:
        raise InputError(f"{row['quantity']}: unit '{row['unit']}' is none of column {column}: {', '.join(units)}")
    try:
        return units[row["unit"]](float(row["value"]))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{row['quantity']}: '{row['value']}' is no value of column {column}") from None
