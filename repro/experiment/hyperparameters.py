"""Hyper-parameters of an experiment beside the paper's: its file's entry `hyperparameters`, path -> source.

    hyperparameters:
      epochs: {place: Table V, row: ResNet-20, quantity: epochs}     # a row of reference/<paper>.csv, variant all
      batch: {place: Table V, row: ResNet-20, quantity: batch of a worker, each: workers}    # times that entry
      optimizer.weight_decay: "assumed: the released code"           # or "chosen here: ..."; not printed in the paper

Only the table contains the paper's number, only the configuration contains ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from repro.core.errors import InputError
from repro.core.fields import Model, Text, check_fields
from repro.experiment.files import own_file, place_of
from repro.experiment.inputs import entry_at
from repro.records.paper_numbers import number, printed

ALWAYS = (
    *("workers", "batch", "epochs"),
    *(f"optimizer.{entry}" for entry in ("lr", "momentum", "weight_decay", "schedule")),
)
WHERE_SET = (  # not listed at a NEUTRAL value
    *("accumulate", "optimizer.milestones", "optimizer.power", "optimizer.warmup", "optimizer.clip_norm"),
    *(f"dataset.{option}" for option in ("image_size", "held", "flip", "pad", "crop", "colour")),
)
NEUTRAL: tuple[Any, ...] = (None, [], 1, False)


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
    set_here = [name for name in WHERE_SET if entry_at(resolved, name) not in NEUTRAL]
    names = dict.fromkeys([*ALWAYS, *set_here, *sources]) if sources else {}
    return [_parameter(experiment, resolved, name, sources.get(name, "no source")) for name in names]


def _parameter(experiment: str, resolved: Mapping[str, Any], name: str, source: Any) -> Parameter:
    ours = entry_at(resolved, name)
    if isinstance(source, str):
        return Parameter(name, ours, None, source)
    try:
        entry = check_fields(Printed, source)
        value, unit, origin = printed(experiment.split("/")[0], entry.place, entry.row, entry.quantity, entry.variant)
    except InputError as error:
        file = place_of("experiment", experiment)
        raise InputError(f"{file}: {experiment}: hyperparameters.{name}: {error}") from None
    paper: str | float = value
    with suppress(ValueError):
        paper = number(value, unit) * (entry_at(resolved, entry.each) if entry.each else 1)
    where = entry.place if entry.place in origin else f"{entry.place}: {origin}"
    return Parameter(name, ours, paper, where + (f"; {value} for each of {entry.each}" if entry.each else ""))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
