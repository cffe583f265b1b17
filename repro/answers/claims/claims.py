"""Claims as data: what a paper says, from which of our numbers it is judged, and what the verdict rests on."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from repro.answers.claims.forms import written_out
from repro.answers.claims.value import Value as Value
from repro.answers.claims.verdict import Effect
from repro.core import yaml_files
from repro.core.errors import InputError
from repro.core.fields import Model, NonNegative, Text, checked


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
        """`value`, or a number alone, stands for both ends."""
        if isinstance(given, int | float):
            given = {"value": given}
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

    def around(self, paper: Paper) -> tuple[float | None, float | None]:
        """The paper's range with the tolerance."""
        low, high = paper.low, paper.high
        return (
            None if low is None else low - abs(low) * self.relative - self.absolute,
            None if high is None else high + abs(high) * self.relative + self.absolute,
        )


class Claimed(Model):
    """Of a claim of an effect: the value of no effect, how near to it is none, and on which side it is claimed."""

    part = "effect"

    none: float
    side: Literal["above", "below"]
    margin: NonNegative | None = None  # of ratios a factor of 1 + margin; else the file's


class Given(Model):
    """The paper's own baseline that a verdict may be conditioned on: what it is, how ours is computed, the paper's
    number of it, and how near to that counts as the same."""

    part = "given"

    what: str = ""
    value: Value
    paper: Paper
    tolerance: Tolerance


class Reason(Model):
    """Why claims do not hold as printed; tested: the experiment that decided it, else it is a conjecture.

    short: the same in at most fifteen words, for tables. kind: of which numbers alone.
    """

    part = "reasons"

    claims: list[Text]
    cause: str
    short: str = ""
    tested: Text | None = None
    kind: Text | None = None


class Claim(Model):
    """One claim of a paper.

    about: time, accuracy (not judged on stand-in data), theory, or data. minimum_seeds: with fewer of them nothing is
    concluded. own_cores: judged only where every rank has a core or a GPU of its own. not_here: why it cannot be tried.
    fixed: since when it stands, if not since the file's date. takes: what a verdict would take (data, GPU-hours,
    hardware) where there is none.
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
    fixed: date | None = None
    value: Value | None = None
    not_here: str | None = None
    takes: str = ""
    given: Given | None = None
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
        return self.tolerance.around(self.paper)

    @property
    def no_loss(self) -> bool:
        """Whether it says that an accuracy is no lower than another."""
        differs = self.value is not None and self.value.verb == "difference"
        return self.about == "accuracy" and differs and self.paper.low == 0 and self.paper.high is None

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
    while the verdicts do. In plain English `{claim:kind:point}` is the number without its range, `:range` the
    range, `:verdict` the word."""

    part = "finding"

    text: str
    rests_on: dict[str, str] = Field(default_factory=dict)  # claim:kind -> the verdict's text


class Untried(Model):
    """What could not be tried, and what it would take: `runs` trainings of `gpu_hours` each on the card of `PRICE`.

    gpu_hours: None where nothing has to be trained on a GPU, or where the paper does not say enough for an estimate;
    then `instead` says what it takes. experiment: whose training at scale paper the estimate is of, computation alone.
    """

    part = "untried"

    what: Text
    data: Text
    runs: int = 1
    gpu_hours: NonNegative | None = None
    experiment: Text | None = None
    instead: str = ""

    @model_validator(mode="after")
    def _estimated_or_not(self) -> Untried:
        if (self.gpu_hours is None) == (not self.instead):
            raise ValueError("needs gpu_hours, or instead, and not both")
        return self


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


class Deviation(Model):
    """Where we do otherwise than the paper, and why."""

    part = "deviations"

    id: Text = ""
    what: str
    why: str


class Contradiction(Model):
    """What does not go together in the paper, and what follows from that."""

    part = "contradictions"

    what: str
    note: str


class File(Model):
    """A claims file. fixed: since when its ranges and tolerances stand. method: what the paper proposes and reports,
    in a sentence; answer: what was found, in one or two, a finding or its text alone; both in words that need no page.
    """

    part = "claims"

    fixed: date
    method: str = ""
    answer: Finding = Finding(text="")
    margins: Margins
    scope: str = ""
    claims: list[Claim]
    reasons: list[Reason] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    restated: list[Restated] = Field(default_factory=list)
    deviations: list[Deviation] = Field(default_factory=list)
    contradictions: list[Contradiction] = Field(default_factory=list)
    untried: list[Untried] = Field(default_factory=list)

    @field_validator("answer", mode="before")
    @classmethod
    def _plain_answer(cls, given: Any) -> Any:
        return {"text": given} if isinstance(given, str) else given

    def effect(self, claim: Claim) -> Effect | None:
        """The claim's effect as verdicts take it."""
        if claim.effect is None:
            return None
        margin = claim.effect.margin if claim.effect.margin is not None else self.margins.of(claim.paper.unit)
        return Effect(claim.effect.none, margin, claim.effect.side, ratio=claim.is_ratio)


def read(path: Path) -> File:
    """A claims file in the form of `forms.py`, each name once; InputError in one line for anything else."""
    content = yaml_files.read(path, "claims file")
    try:
        file = checked(File, written_out(content, path.parent.name, Claim.model_fields), "claims")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    names = [claim.id for claim in file.claims]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path}: claim '{twice}' stands there twice")
    return file
