"""The schema of a claims file (`reports/<paper>/claims.yaml`): claims, tolerances, reasons, findings, deviations."""

from __future__ import annotations

import math
import re
import textwrap
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from repro.answers.claims.forms import written_out
from repro.answers.claims.stats import middle_of_range
from repro.answers.claims.value import Value as Value
from repro.answers.claims.verdict import Effect
from repro.core import user_files
from repro.core.errors import InputError, unknown_name
from repro.core.fields import Model, NonNegative, Number, Positive, Text, check_fields

FINDINGS = ("answer", "title", "believe", "doubt", "unknown")  # entries of a claims file that are findings
PLACEHOLDER = re.compile(r"{(?P<claim>[^{}:]+):(?P<kind>[^{}:]+)(?::(?P<part>point|range|verdict|reason))?}")


class Paper(Model):
    """The paper's number as a range; a bound omits one end, and a claimed effect without a size both: its end is then
    the bound (`File.bounded`). shown: as printed; unit: x, % (printed x 100) or ""."""

    part = "paper"

    low: Number | None = None
    high: Number | None = None
    shown: Text
    unit: Literal["", "x", "%"] = ""

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, entry: Any) -> Any:
        """`value`, or a number alone, sets both ends."""
        if isinstance(entry, int | float):
            entry = {"value": entry}
        if isinstance(entry, dict) and "value" in entry:
            value = entry["value"]
            return {"shown": str(value), "low": value, "high": value} | {k: v for k, v in entry.items() if k != "value"}
        return entry

    @property
    def has_end(self) -> bool:
        return self.low is not None or self.high is not None

    @property
    def is_bound(self) -> bool:
        return (self.low is None) != (self.high is None)

    def middle(self, added: float = 0.0) -> float:
        """The middle of the range (`middle_of_range`). added: to each end."""
        return middle_of_range(*(math.nan if end is None else end + added for end in (self.low, self.high)))

    def factor(self, ours: float, added: float = 0.0) -> float | None:
        """Our number over the middle of the range, as pictures draw it; None if there is no such ratio."""
        above, below = ours + added, self.middle(added)
        return above / below if below > 0 and 0 < above < math.inf else None


class Tolerance(Model):
    """By how much the range is widened; fixed: the date since when, if not the file's."""

    part = "tolerance"

    absolute: NonNegative = 0.0
    relative: NonNegative = 0.0
    fixed: date | None = None

    def around(self, paper: Paper) -> tuple[float | None, float | None]:
        """The paper's range, widened by the tolerance."""
        return self._beyond(paper.low, -1), self._beyond(paper.high, 1)

    def _beyond(self, end: float | None, sign: int) -> float | None:
        return None if end is None else end + sign * (abs(end) * self.relative) + sign * self.absolute


class ClaimedEffect(Model):
    """A claim of an effect: the value of no effect, the margin around it, and the claimed side."""

    part = "effect"

    none: float
    side: Literal["above", "below"]
    margin: NonNegative | None = None  # for ratios a factor of 1 + margin; None: the file's


class Baseline(Model):
    """The paper's own baseline for a conditional verdict: its name, our number, the paper's, and the tolerance within
    which ours reproduces the paper's."""

    part = "given"

    what: str = ""
    value: Value
    paper: Paper
    tolerance: Tolerance

    @model_validator(mode="after")
    def _some_end(self) -> Baseline:
        if not self.paper.has_end:
            raise ValueError("paper needs value, low or high")
        return self

    def factor(self, ours: float) -> float | None:
        """Our number over the paper's (`Paper.factor`); of gains, what they make of 1."""
        return self.paper.factor(ours, added=float(self.value.verb == "gain"))


class Reason(Model):
    """Why claims do not hold as printed; tested: the experiment that showed it; proved: docs/derivations.md shows it
    from printed numbers alone. Without either it is a conjecture.

    short: the cause in at most eight words, for tables. kind: the only kind of number to which it applies. caveat: it
    says what speaks against claims that hold as printed.
    """

    part = "reasons"

    claims: list[Text]
    cause: str
    short: str = ""
    tested: Text | None = None
    proved: bool = False
    kind: Text | None = None
    caveat: bool = False


class Claim(Model):
    """One claim of a paper.

    about: accuracies are not judged on stand-in data. minimum_seeds: with fewer the verdict is open. own_cores: judged
    only where every rank has a core or a GPU of its own. whole: judged by whole trainings, not by draws, which simulate
    the first iterations alone. not_here: why it cannot be tested. fixed: the date since when
    it stands, if not the file's. takes: the data, GPU-hours or hardware that a missing verdict would need.
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
    given: Baseline | None = None
    effect: ClaimedEffect | None = None
    scope: str = ""
    headline: bool = False
    own_cores: bool = True
    whole: bool = False

    @field_validator("text", mode="after")
    @classmethod
    def _on_one_line(cls, text: str) -> str:
        return " ".join(text.split())

    @model_validator(mode="after")
    def _tried_or_not(self) -> Claim:
        if (self.value is None) == (self.not_here is None):
            raise ValueError("needs value, or not_here, and not both")
        return self

    @model_validator(mode="after")
    def _some_end(self) -> Claim:
        if not self.paper.has_end and self.effect is None:
            raise ValueError("paper needs value, low or high, unless the claim is of an effect")
        return self

    @property
    def widened(self) -> tuple[float | None, float | None]:
        """The paper's range, widened by the tolerance."""
        return self.tolerance.around(self.paper)

    @property
    def no_loss(self) -> bool:
        """Whether it claims that one accuracy is no lower than another."""
        differs = self.value is not None and self.value.verb == "difference"
        return self.about == "accuracy" and differs and self.paper.low == 0 and self.paper.high is None

    @property
    def in_points(self) -> bool:
        """Whether its number is a difference of shares of the test set, shown in percentage points."""
        verb = self.value.verb if self.value else None
        return self.about == "accuracy" and verb in ("difference", "outside") and not self.paper.unit

    @property
    def is_ratio(self) -> bool:
        """Whether its number is a factor, to be compared on a log scale."""
        return self.paper.unit == "x"

    def seeds_for(self, kind: str) -> int:
        """The number of seeds that a verdict needs; `measured, padded` counts as `measured`."""
        if isinstance(self.minimum_seeds, int):
            return self.minimum_seeds
        return self.minimum_seeds.get(kind.partition(",")[0], 1)


class Finding(Model):
    """A sentence on a result whose numbers are placeholders: `{claim:kind}`, or `{claim:paper}` for the paper's.

    `{claim:kind:point}` is the number without its range, `:range` the range, `:verdict` the word, `:reason` what stands
    beside the word, as the pairs of an accuracy. The build fails where a verdict in `rests_on` has changed.
    """

    part = "finding"

    text: str
    rests_on: dict[str, str] = Field(default_factory=dict)  # claim:kind -> the verdict's text


class Untried(Model):
    """An experiment that could not be run, and its cost: `runs` trainings of `gpu_hours` each on the card of `PRICE`.

    gpu_hours: None where no training on a GPU is needed, or the paper does not say enough for an estimate; then
    `instead` says what is needed. experiment: the one whose computation at scale paper was estimated.
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


class Settles(Model):
    """A measurement that would settle claims: `count` machines (`pages/settling.py`) for `hours`, and the command."""

    part = "settles"

    claims: list[Text]
    what: Text
    machine: Text
    count: int = Field(1, ge=1)
    hours: Positive
    command: Text


class Restated(Model):
    """A testbed entry that was taken from claims of the paper (`implied_by`); `claims`: those that the entry alone
    decides, which hold by construction."""

    part = "restated"

    testbeds: list[Text]
    entry: Text
    claims: list[Text] = Field(default_factory=list)
    implied_by: list[Text] = Field(default_factory=list)


class Margins(Model):
    """The margins around no effect, by unit, and the date since when they stand."""

    part = "margins"

    x: NonNegative = 0.05
    percent: NonNegative = 0.05
    number: NonNegative = 0.0
    fixed: date

    def of(self, unit: str) -> float:
        return {"x": self.x, "%": self.percent, "": self.number}[unit]


class Deviation(Model):
    """A deviation from the paper, and the reason."""

    part = "deviations"

    id: Text = ""
    what: str
    why: str


class Contradiction(Model):
    """A contradiction within the paper, and what follows from it."""

    part = "contradictions"

    what: str
    note: str


class File(Model):
    """A claims file. fixed: the date since when its ranges and tolerances stand.

    method: what the paper proposes and reports, in one sentence; answer: the result in one or two sentences; title: the
    result in one short sentence; believe, doubt, unknown: what a reader may make of it, a sentence each. All must be
    readable without the page; results are findings or their text alone. labels: headline -> its name in at most 44
    letters, for pictures and lists.
    """

    part = "claims"

    fixed: date
    method: str = ""
    answer: Finding = Finding(text="")
    title: Finding = Finding(text="")
    believe: Finding = Finding(text="")
    doubt: Finding = Finding(text="")
    unknown: Finding = Finding(text="")
    labels: dict[str, Annotated[str, Field(max_length=44)]] = Field(default_factory=dict)
    margins: Margins
    scope: str = ""
    claims: list[Claim]
    reasons: list[Reason] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    restated: list[Restated] = Field(default_factory=list)
    deviations: list[Deviation] = Field(default_factory=list)
    contradictions: list[Contradiction] = Field(default_factory=list)
    untried: list[Untried] = Field(default_factory=list)
    settles: list[Settles] = Field(default_factory=list)

    @field_validator(*FINDINGS, mode="before")
    @classmethod
    def _plain_finding(cls, finding: Any) -> Any:
        return {"text": finding} if isinstance(finding, str) else finding

    @model_validator(mode="after")
    def _of_its_claims(self) -> File:
        """Labels, and findings with the verdicts that they rest on, name claims of the file."""
        findings = {name: getattr(self, name) for name in FINDINGS}
        findings |= {f"findings, entry {number}": each for number, each in enumerate(self.findings, start=1)}
        named = {"labels": [*self.labels]}
        for where, each in findings.items():
            named[where] = [place["claim"] for place in PLACEHOLDER.finditer(each.text)]
            named[where] += [place.partition(":")[0] for place in each.rests_on]
        known = {claim.id for claim in self.claims}
        for where, names in named.items():
            if wrong := next((name for name in names if name not in known), None):
                raise InputError(f"{where}: {unknown_name('claim', wrong, known)}")
        return self

    def label(self, claim: Claim) -> str:
        """A claim's name in pictures and lists."""
        return self.labels.get(claim.id) or textwrap.shorten(claim.text, 44, placeholder=" ...")

    def effect(self, claim: Claim) -> Effect | None:
        """The effect that a claim's verdict is about, with its margin."""
        if (effect := claim.effect) is None:
            return None
        margin = effect.margin if effect.margin is not None else self.margins.of(claim.paper.unit)
        return Effect(effect.none, margin, effect.side, ratio=claim.is_ratio)

    def bounded(self, claim: Claim) -> Claim:
        """The claim; of an effect without a size with the effect's end as the paper's bound."""
        effect = self.effect(claim)
        if claim.paper.has_end or effect is None:
            return claim
        below, above = effect.band
        bound = {"low": above} if effect.side == "above" else {"high": below}
        return claim.model_copy(update={"paper": claim.paper.model_copy(update=bound)})


def read_claims(path: Path) -> File:
    """Read a claims file (short forms: `forms.py`); InputError in one line if it is invalid or repeats an id."""
    content = user_files.read_yaml(path, "claims file")
    try:
        file = check_fields(File, written_out(content, path.parent.name, Claim.model_fields), "claims")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    names = [claim.id for claim in file.claims]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path}: claim '{twice}' stands there twice")
    return file.model_copy(update={"claims": [file.bounded(claim) for claim in file.claims]})
