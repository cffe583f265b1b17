"""What a paper prints of an experiment's variants: its file's `quoted`, which points into `reference/<paper>.csv`.

    quoted:
      - {column: final, place: Figure 4, row: MNIST-MLP, quantity: final top-1}
      - column: over                       # final: the score; ms: an iteration; over: the speed-up over a variant
        over: bsp
        place: Table 1
        row: "VGG16, 4 (A)"
        quantity: speed-up over BSP
        variants: {pipedream: PipeDream}   # ours -> the table's; without it ours have the table's names

The number itself stands in the table alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from repro.core.errors import InputError
from repro.core.fields import Model, Text, checked
from repro.experiment.files import own_file, place_of
from repro.records.paper_numbers import table

# column -> unit of the table -> the column's value of the table's
UNITS: dict[str, dict[str, Callable[[float], float]]] = {
    "final": {"": float, "%": lambda value: value / 100},
    "ms": {"s": lambda value: 1e3 * value, "steps/s": lambda value: 1e3 / value},
    "over": {"x": float},
}


class Quoted(Model):
    """An entry of `quoted`."""

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
        """Title of our column that the paper's number stands beside."""
        return f"over {self.over}" if self.over else self.column


def quoted(experiment: str) -> dict[str, dict[str, float]]:
    """Column of ours -> variant -> the paper's number; {} of an experiment that quotes none.

    InputError naming file and entry where one is of another form, or its table has no such number.
    """
    return {column: numbers for column, (numbers, _) in printed(experiment).items()}


def printed(experiment: str) -> dict[str, tuple[dict[str, float], str]]:
    """The same with the place and the row of the paper that the numbers are of: what it trained or measured there."""
    numbers: dict[str, dict[str, float]] = {}
    places: dict[str, dict[str, list[str]]] = {}
    for number, given in enumerate(own_file(experiment).get("quoted") or (), start=1):
        try:
            entry = checked(Quoted, given)
            numbers.setdefault(entry.title, {}).update(_numbers(experiment.split("/")[0], entry))
        except InputError as error:
            raise InputError(
                f"{place_of('experiment', experiment)}: {experiment}: quoted, entry {number}: {error}"
            ) from None
        rows = places.setdefault(entry.title, {}).setdefault(entry.place, [])
        rows += [entry.row] if entry.row not in rows else []
    said = {
        column: "; ".join(f"{place}, {', '.join(rows)}" for place, rows in of.items()) for column, of in places.items()
    }
    return {column: (values, said[column]) for column, values in numbers.items()}


def _numbers(paper: str, entry: Quoted) -> dict[str, float]:
    where = (entry.place, entry.row, entry.quantity)
    rows = {row["variant"]: row for row in table(paper) if (row["place"], row["row"], row["quantity"]) == where}
    names = entry.variants or {printed: printed for printed in rows}
    if lacking := [variant for variant in names.values() if variant not in rows] or ([] if rows else ["any variant"]):
        raise InputError(f"{paper}.csv has nothing of {lacking[0]} in {', '.join(where)}")
    return {variant: _value(entry.column, rows[printed]) for variant, printed in names.items()}


def _value(column: str, row: dict[str, Any]) -> float:
    units = UNITS[column]
    if row["unit"] not in units:
        raise InputError(f"{row['quantity']}: unit '{row['unit']}' is none of column {column}: {', '.join(units)}")
    try:
        return units[row["unit"]](float(row["value"]))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{row['quantity']}: '{row['value']}' is no number of {column}") from None
