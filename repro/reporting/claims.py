"""Claims as data: which numbers of a table one is about, what is done with them, the paper's own, what they rest on."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, model_validator

from repro.common import yaml_files
from repro.common.errors import InputError
from repro.common.fields import Model, NonNegative, Text, checked
from repro.reporting.filters import Filter
from repro.reporting.verdict import Effect


class Value(Model):
    """A number from the rows that `of` and `over` choose of a table.

    value: of's; ratio: over's to of's; reduction: the share of over's that of has less. `take`: of several rows.
    """

    part = "value"

    verb: Literal["value", "ratio", "reduction"]
    column: Text
    of: Filter
    over: Filter | None = None
    take: Literal["min", "max", "mean"] = "min"

    @model_validator(mode="after")
    def _two_sides(self) -> Value:
        if (self.verb == "value") != (self.over is None):
            raise ValueError(f"{self.verb} {'has no over' if self.over else 'needs over'}")
        return self


class Paper(Model):
    """The paper's range (an end that is left out is open), as it prints it."""

    part = "paper"

    low: float | None = None
    high: float | None = None
    shown: Text


class Tolerance(Model):
    """By how much the range is wider than printed, and since when."""

    part = "tolerance"

    absolute: NonNegative = 0.0
    relative: NonNegative = 0.0
    fixed: date


class Claimed(Model):
    """Of a claim of an effect: where there is none, how near to that is none, and on which side it is claimed."""

    part = "effect"

    none: float
    margin: NonNegative
    side: Literal["above", "below"]


class Because(Model):
    """Why a claim does not hold as printed; tested: the experiment that decided it, else it is a conjecture."""

    part = "because"

    cause: str
    tested: Text | None = None


class Claim(Model):
    """One claim of a paper. Without `value` it cannot be tried here, for the reason that `not_here` gives."""

    part = "claim"

    id: Text
    text: str
    source: Text
    scope: str
    paper: Paper
    tolerance: Tolerance
    headline: bool = False
    value: Value | None = None
    not_here: str | None = None
    effect: Claimed | None = None
    because: Because | None = None
    inputs: list[Text] = Field(default_factory=list)  # names of assumed inputs, of which the table has both ends

    @model_validator(mode="after")
    def _tried_or_not(self) -> Claim:
        if (self.value is None) == (self.not_here is None):
            raise ValueError("needs value, or not_here, and not both")
        if self.effect and (self.paper.low is None or self.paper.high is None):
            raise ValueError("a claim of an effect needs both ends of the paper's range")
        return self

    @property
    def widened(self) -> tuple[float | None, float | None]:
        """The paper's range with the tolerance."""
        low, high, by = self.paper.low, self.paper.high, self.tolerance
        return (
            None if low is None else low - abs(low) * by.relative - by.absolute,
            None if high is None else high + abs(high) * by.relative + by.absolute,
        )

    @property
    def claimed(self) -> Effect | None:
        """The effect as verdicts take it; sizes of ratios are compared on a log scale."""
        if self.effect is None or self.value is None:
            return None
        return Effect(self.effect.none, self.effect.margin, self.effect.side, ratio=self.value.verb == "ratio")


class File(Model):
    """A claims file."""

    part = "claims"

    claims: list[Claim]


def read(path: Path) -> list[Claim]:
    """The claims of a file, each name once; InputError in one line for anything else."""
    try:
        content = yaml_files.read(path)
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not a readable claims file ({' '.join(str(error).split())})") from None
    try:
        claims = checked(File, content, "claims").claims
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    names = [claim.id for claim in claims]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path}: claim '{twice}' stands there twice")
    return claims
