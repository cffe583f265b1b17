"""Claims as data: what a paper says, from which of our numbers it is judged, and what the verdict rests on."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from repro.answers.claims.verdict import Effect
from repro.answers.tables.columns import Filter
from repro.core import yaml_files
from repro.core.errors import InputError
from repro.core.fields import Model, NonNegative, Text, checked


class Value(Model):
    """How ours is computed, a number a seed: by a verb on the rows that `of` and `over` choose of the runs, or by a
    named function of the paper's own (`function`, with its arguments).

    value: of's; best: that of the seed where it is greatest; ratio: of's to over's; speedup: over's to of's;
    difference: of's less over's; reduction: the share of over's that of has less; gain: by which share of over's that
    of has more; at_least: 1 where of's is not below over's, else 0; outside: how far of's lies outside of the range of
    the variants of over. `of` and `over` may themselves be of a verb.
    `each`: the number is computed apart for each value of these columns (for all that `of` lists, if it does), and of
    these is taken what `take` says; `farthest`: from 1. Without it `take` is which variant, where `of` or `over`
    chooses several, by its median over seeds. `phases`: of the breakdown runs, where there are any. column: one of the
    table, or arithmetic on several (`repro.answers.tables.columns`). table: `runs`, or `rows`: what probes found.
    """

    part = "value"

    verb: (
        Literal["value", "best", "ratio", "speedup", "difference", "reduction", "gain", "at_least", "outside"] | None
    ) = None
    function: Text | None = None  # instead
    arguments: dict[str, Any] = Field(default_factory=dict)
    table: Literal["runs", "rows"] = "runs"
    column: Text | None = None
    of: Side = Field(default_factory=dict)
    over: Side | None = None
    over_column: Text | None = None  # where over's is another one
    each: list[Text] = Field(default_factory=list)
    take: Literal["min", "max", "mean", "median", "farthest"] = "min"
    phases: bool = False

    @model_validator(mode="before")
    @classmethod
    def _with_arguments(cls, given: Any) -> Any:
        """`{function: speedup, over: D-Sync}`: what stands beside a function are its arguments."""
        if isinstance(given, dict) and "function" in given:
            return {"function": given["function"], "arguments": {k: v for k, v in given.items() if k != "function"}}
        return given

    @model_validator(mode="after")
    def _one_way(self) -> Value:
        if (self.verb is None) == (self.function is None):
            raise ValueError("needs verb or function, and not both")
        if self.verb and any(column is None for column, _ in self.sides):
            raise ValueError(f"{self.verb} needs column")
        if self.verb and (self.verb in ("value", "best")) != (self.over is None):
            raise ValueError(f"{self.verb} {'has no over' if self.over else 'needs over'}")
        return self

    @property
    def sides(self) -> list[tuple[str | None, Filter]]:
        """Column and filter of all that a verb's number is computed from."""
        found: list[tuple[str | None, Filter]] = []
        for side, column in ((self.of, self.column), (self.over, self.over_column or self.column)):
            if side is not None:
                found += side.sides if isinstance(side, Value) else [(column, side)]
        return found

    @property
    def chooses(self) -> set[str]:
        """The columns by which it chooses rows."""
        inner = (side for side in (self.of, self.over) if isinstance(side, Value))
        return {*self.each, *(name for _, of in self.sides for name in of)}.union(*(side.chooses for side in inner))

    @property
    def compared(self) -> list[Value]:
        """The ratios that it is computed from where it does not compare columns itself."""
        return [side for side in (self.of, self.over) if isinstance(side, Value) and (side.over or side.compared)]

    @property
    def takes_error(self) -> bool:
        """Whether it counts or compares ratios, each of which may be off."""
        return self.verb == "at_least" or (self.verb == "difference" and bool(self.compared))


Side = Annotated[
    Annotated[Value, Tag("verb")] | Annotated[Filter, Tag("rows")],
    Discriminator(lambda given: "verb" if isinstance(given, Value) or "verb" in given else "rows"),
]


class Paper(Model):
    """The paper's range (an end that is left out is open) as it prints it; `unit`: x, % (printed x 100) or ""."""

    part = "paper"

    low: float | None = None
    high: float | None = None
    shown: Text
    unit: Literal["", "x", "%"] = ""

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, given: Any) -> Any:
        """`value` stands for both ends."""
        if isinstance(given, dict) and "value" in given:
            value = given["value"]
            return {"shown": str(value), "low": value, "high": value} | {k: v for k, v in given.items() if k != "value"}
        return given

    @model_validator(mode="after")
    def _some_end(self) -> Paper:
        if self.low is None and self.high is None:
            raise ValueError("needs value, low or high")
        return self


class Tolerance(Model):
    """By how much the range is wider than printed; `fixed`: since when, if not since the file's date."""

    part = "tolerance"

    absolute: NonNegative = 0.0
    relative: NonNegative = 0.0
    fixed: date | None = None


class Claimed(Model):
    """Of a claim of an effect: the value of no effect, how near to it is none, and on which side it is claimed."""

    part = "effect"

    none: float
    side: Literal["above", "below"]
    margin: NonNegative | None = None  # of ratios a factor of 1 + margin; else the file's


class Reason(Model):
    """Why claims do not hold as printed; tested: the experiment that decided it, else it is a conjecture.

    kind: of which numbers alone. authors_reply: what they said to it.
    """

    part = "reasons"

    claims: list[Text]
    cause: str
    tested: Text | None = None
    kind: Text | None = None
    authors_reply: str = ""


class Claim(Model):
    """One claim of a paper.

    about: time, accuracy (not judged on stand-in data), theory, or data. minimum_seeds: with fewer of them nothing is
    concluded. own_cores: judged only where every rank has a core or a GPU of its own. not_here: why it cannot be tried.
    """

    part = "claim"

    id: Text
    about: Literal["time", "accuracy", "theory", "data"]
    text: str
    source: str
    experiment: Text
    paper: Paper
    tolerance: Tolerance
    minimum_seeds: int | dict[str, int] = 1
    value: Value | None = None
    not_here: str | None = None
    effect: Claimed | None = None
    scope: str = ""
    headline: bool = False
    own_cores: bool = True

    @field_validator("text", mode="after")
    @classmethod
    def _on_one_line(cls, text: str) -> str:
        return " ".join(text.split())

    @model_validator(mode="after")
    def _tried_or_not(self) -> Claim:
        if (self.value is None) == (self.not_here is None):
            raise ValueError("needs value, or not_here, and not both")
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
    def is_ratio(self) -> bool:
        """Whether ours is a factor, whose sizes are compared on a log scale."""
        return self.paper.unit == "x"

    def seeds_for(self, kind: str) -> int:
        """How many seeds a verdict takes; padded runs are measured ones."""
        if isinstance(self.minimum_seeds, int):
            return self.minimum_seeds
        return self.minimum_seeds.get(kind.partition(",")[0], 1)


class Finding(Model):
    """A sentence about what was found, each number a placeholder `{claim:kind}`, the paper's `{claim:paper}`; it holds
    while the verdicts do."""

    part = "finding"

    text: str
    rests_on: dict[str, str] = Field(default_factory=dict)  # claim:kind -> the verdict's text


class Restated(Model):
    """An entry of testbeds that was taken from a number that the paper claims: what is claimed by construction, for it
    went in or follows from the entry alone, and by which claims the entry was implied."""

    part = "restated"

    testbeds: list[Text]
    entry: Text
    claims: list[Text] = Field(default_factory=list)
    implied_by: list[Text] = Field(default_factory=list)


class Margins(Model):
    """How near to no effect is none, of each unit, and since when."""

    part = "margins"

    x: NonNegative = 0.05
    percent: NonNegative = 0.05
    number: NonNegative = 0.0
    fixed: date

    def of(self, unit: str) -> float:
        return {"x": self.x, "%": self.percent, "": self.number}[unit]


class File(Model):
    """A claims file. fixed: since when its ranges and tolerances stand. answer: what was found, in a sentence with the
    placeholders of findings."""

    part = "claims"

    fixed: date
    answer: str = ""
    margins: Margins
    scope: str = ""
    claims: list[Claim]
    reasons: list[Reason] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    restated: list[Restated] = Field(default_factory=list)
    deviations: list[dict[str, str]] = Field(default_factory=list)
    contradictions: list[dict[str, str]] = Field(default_factory=list)

    def effect(self, claim: Claim) -> Effect | None:
        """The claim's effect as verdicts take it."""
        if claim.effect is None:
            return None
        margin = claim.effect.margin if claim.effect.margin is not None else self.margins.of(claim.paper.unit)
        return Effect(claim.effect.none, margin, claim.effect.side, ratio=claim.is_ratio)


def read(path: Path) -> File:
    """A claims file, each name once; InputError in one line for anything else."""
    content = yaml_files.read(path, "claims file")
    try:
        file = checked(File, content, "claims")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    names = [claim.id for claim in file.claims]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path}: claim '{twice}' stands there twice")
    return file
