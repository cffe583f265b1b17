"""A paper's numbers beside an experiment's: those of its variants (its file's `quoted`), and its `hyperparameters`.
Both point into `reference/<paper>.csv`.

    quoted:
      - {column: final, place: Figure 4, row: MNIST-MLP, quantity: final top-1}
      - column: over                       # final: the score; ms: an iteration; over: the speed-up over a variant
        over: bsp
        place: Table 1
        row: "VGG16, 4 (A)"
        quantity: speed-up over BSP
        variants: {pipedream: PipeDream}   # our name -> the table's; by default the names are the same

    hyperparameters:
      epochs: {place: Table V, row: ResNet-20, quantity: epochs}     # a row of reference/<paper>.csv, variant all
      batch: {place: Table V, row: ResNet-20, quantity: batch of a worker, each: workers}    # times that entry
      optimizer.weight_decay: "assumed: the released code"           # or "chosen here: ..."; not printed in the paper

Only the table contains the paper's number, only the configuration contains ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from repro.core.errors import InputError
from repro.core.fields import Model, Text, check_fields, entry_at
from repro.experiment.files import config_file, own_file
from repro.experiment.optimizer import Optimizer, effective_optimizer
from repro.records.neutral import neutral_value
from repro.records.paper_numbers import parse_number, printed_number, read_numbers

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
    for place, value in enumerate(own_file(experiment).get("quoted") or (), start=1):
        try:
            entry = check_fields(Quoted, value)
            numbers.setdefault(entry.title, {}).update(_numbers(experiment.split("/")[0], entry))
        except InputError as error:
            file = config_file("experiment", experiment)
            raise InputError(f"{file}: {experiment}: quoted, entry {place}: {error}") from None
        rows = places.setdefault(entry.title, {}).setdefault(entry.place, [])
        rows += [entry.row] if entry.row not in rows else []
    return {
        column: (values, "; ".join(f"{place}, {', '.join(rows)}" for place, rows in places[column].items()))
        for column, values in numbers.items()
    }


def _numbers(paper: str, entry: Quoted) -> dict[str, float]:
    where = (entry.place, entry.row, entry.quantity)
    rows = {row["variant"]: row for row in read_numbers(paper) if (row["place"], row["row"], row["quantity"]) == where}
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


ALWAYS = (
    *("workers", "batch", "epochs"),
    *(f"optimizer.{entry}" for entry in ("lr", "momentum", "weight_decay", "schedule")),
)
WHERE_SET = (  # not listed at its default, or without effect
    "accumulate",
    *(f"optimizer.{entry}" for entry in Optimizer.model_fields),
    *(f"dataset.{option}" for option in ("image_size", "held", "flip", "pad", "crop", "colour")),
)


class Printed(Model):
    """Where a paper prints a hyper-parameter. each: the printed number is multiplied by this entry of ours."""

    part = "hyperparameters"

    place: Text
    row: Text
    quantity: Text
    variant: Text = "all"
    each: Text | None = None


class Parameter(NamedTuple):
    """A hyper-parameter: our value, the paper's (None: not printed), and its source."""

    name: str
    ours: Any
    paper: str | float | None
    source: str

    @property
    def line(self) -> str:
        """`optimizer.lr = 0.1; the paper: 0.1 (Table V)`"""
        source = self.source if self.paper is None else f"the paper: {_shown(self.paper)} ({self.source})"
        return f"{self.name} = {_shown(self.ours)}; {source}"


def read_hyperparameters(experiment: str, resolved: Mapping[str, Any]) -> list[Parameter]:
    """The hyper-parameters that an experiment sets; [] if its file has no `hyperparameters`.

    resolved: its composed configuration. InputError with file and entry if the table has no such number.
    """
    sources: dict[str, Any] = own_file(experiment).get("hyperparameters") or {}
    effective = {**resolved, "optimizer": effective_optimizer(resolved["optimizer"])}
    set_here = [name for name in WHERE_SET if entry_at(effective, name) not in (None, neutral_value(name))]
    names = dict.fromkeys([*ALWAYS, *set_here, *sources]) if sources else {}
    return [_parameter(experiment, resolved, name, sources.get(name, "no source")) for name in names]


def _parameter(experiment: str, resolved: Mapping[str, Any], name: str, source: Any) -> Parameter:
    ours = entry_at(resolved, name)
    if isinstance(source, str):
        return Parameter(name, ours, None, source)
    try:
        entry = check_fields(Printed, source)
        value, unit, origin = printed_number(
            experiment.split("/")[0], entry.place, entry.row, entry.quantity, entry.variant
        )
    except InputError as error:
        file = config_file("experiment", experiment)
        raise InputError(f"{file}: {experiment}: hyperparameters.{name}: {error}") from None
    paper: str | float = value
    with suppress(ValueError):
        paper = parse_number(value, unit) * (entry_at(resolved, entry.each) if entry.each else 1)
    where = entry.place if entry.place in origin else f"{entry.place}: {origin}"
    return Parameter(name, ours, paper, where + (f"; {value} for each of {entry.each}" if entry.each else ""))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
