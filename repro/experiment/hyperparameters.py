"""An experiment's hyper-parameters beside the paper's own: its file's `hyperparameters`, path -> where it is from.

    hyperparameters:
      epochs: {place: Table V, row: ResNet-20, quantity: epochs}     # a row of reference/<paper>.csv, variant all
      batch: {place: Table V, row: ResNet-20, quantity: batch of a worker, each: workers}    # times that entry
      optimizer.weight_decay: "assumed: the released code"           # or "chosen here: ..."; what is not printed

The paper's number stands in the table alone, ours in the configuration alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from repro.core.errors import InputError
from repro.core.fields import Model, Text, checked
from repro.experiment.files import own_file, place_of
from repro.experiment.inputs import at
from repro.records.paper_numbers import number, printed

ALWAYS = (
    *("workers", "batch", "epochs"),
    *(f"optimizer.{entry}" for entry in ("lr", "momentum", "weight_decay", "schedule")),
)
WHERE_SET = (  # that have a neutral value, at which they say nothing
    *("accumulate", "optimizer.milestones", "optimizer.power", "optimizer.warmup", "optimizer.clip_norm"),
    *(f"dataset.{option}" for option in ("image_size", "held", "flip", "pad", "crop", "colour")),
)
NEUTRAL: tuple[Any, ...] = (None, [], 1, False)


class Printed(Model):
    """Where a paper prints a hyper-parameter; `each`: the entry of ours that its number is for one of."""

    part = "hyperparameters"

    place: Text
    row: Text
    quantity: Text
    variant: Text = "all"
    each: Text | None = None


class Parameter(NamedTuple):
    """A line: ours, the paper's (None: it prints none), and what it is from."""

    name: str
    ours: Any
    paper: str | float | None
    source: str

    @property
    def line(self) -> str:
        """`optimizer.lr = 0.1; the paper: 0.1 (Table V)`"""
        said = self.source if self.paper is None else f"the paper: {_shown(self.paper)} ({self.source})"
        return f"{self.name} = {_shown(self.ours)}; {said}"


def parameters(experiment: str, resolved: Mapping[str, Any]) -> list[Parameter]:
    """Those of an experiment that says where they are from, each that it sets; [] of another.

    resolved: its composed configuration. InputError naming file and entry where the table has no such number.
    """
    given: dict[str, Any] = own_file(experiment).get("hyperparameters") or {}
    set_here = [name for name in WHERE_SET if at(resolved, name) not in NEUTRAL]
    names = dict.fromkeys([*ALWAYS, *set_here, *given]) if given else {}
    return [_parameter(experiment, resolved, name, given.get(name, "not said")) for name in names]


def _parameter(experiment: str, resolved: Mapping[str, Any], name: str, given: Any) -> Parameter:
    ours = at(resolved, name)
    if isinstance(given, str):
        return Parameter(name, ours, None, given)
    try:
        entry = checked(Printed, given)
        value, unit, source = printed(experiment.split("/")[0], entry.place, entry.row, entry.quantity, entry.variant)
    except InputError as error:
        raise InputError(
            f"{place_of('experiment', experiment)}: {experiment}: hyperparameters.{name}: {error}"
        ) from None
    said: str | float = value
    with suppress(ValueError):
        said = number(value, unit) * (at(resolved, entry.each) if entry.each else 1)
    where = entry.place if entry.place in source else f"{entry.place}: {source}"
    return Parameter(name, ours, said, where + (f"; {value} for each of {entry.each}" if entry.each else ""))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
