"""Causes: why our number differs from the paper's (`reports/<paper>/causes.yaml`), and what runs say of each.

A cause is a mechanism with a source, runs that have it, the number that it predicts for a claim, committed before these
runs, and a second printed number that it must give too. Nobody writes its status: it follows from the runs.

    - id: streams
      mechanism: The minibatch of 80 is 80 time steps of 32 streams, not 80 captions.
      short: 80 time steps of 32 streams
      source: "vsubhashini/caffe, branch recurrent, examples/s2vt/s2vt.prototxt, lines 21 and 65"
      experiment: cause-s2vt-streams       # whose runs have the cause; left out where no run can have it
      fixed: 2026-11-28                    # the day on which the predictions were committed
      predicts: {s2vt-4a-over-bsp: 2.3}    # claim -> our number with the cause
      second: {s2vt-4a-bsp: 1.07}          # the same, of other numbers that the paper prints
      excludes: [captions]                 # causes, of this claim or others, that cannot be true together with it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from repro.answers.claims.claims import Claim, File
from repro.answers.claims.evidence import ClaimEvaluator, outcome_of
from repro.answers.claims.stats import median_or_none
from repro.answers.claims.value import Value
from repro.answers.claims.verdict import in_range
from repro.core import config_folders, user_files
from repro.core.errors import InputError, unknown_name
from repro.core.fields import Model, Number, Text, check_fields
from repro.records.kinds import SIMULATED, OfTestbed

# the surest first
TESTED, RIVAL, IMPLIED, NO_FIT, CONJECTURE = STATUSES = ("tested", "rival", "implied", "no fit", "conjecture")
Predictions = dict[Text, Number]  # claim -> our number with the cause


class Cause(Model):
    """A cause. after: an earlier cause that its runs have too, so that theirs are the runs without it; without: the
    experiment without it, where a mistake of ours was mended and the claim's runs have it. fitted: whether an input was
    chosen so that a printed number comes out. excludes: causes that cannot be true together with this one. value:
    claim -> how our number is computed from the cause's runs, where it is not as the claim says. kind: of the runs."""

    part = "cause"

    id: Text
    mechanism: str
    short: Text
    source: str
    fixed: date
    predicts: Predictions = Field(min_length=1)
    second: Predictions = Field(min_length=1)
    experiment: Text | None = None
    kind: OfTestbed = SIMULATED
    after: Text | None = None
    without: Text | None = None
    fitted: bool = False
    excludes: list[Text] = Field(default_factory=list)
    value: dict[Text, Value] = Field(default_factory=dict)

    @field_validator("mechanism", "source", mode="after")
    @classmethod
    def _not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("must not be blank")
        return " ".join(text.split())

    @model_validator(mode="after")
    def _two_numbers(self) -> Cause:
        if twice := sorted(self.predicts.keys() & self.second.keys()):
            raise ValueError(f"second: {twice[0]} stands in predicts; must be another printed number")
        return self


def read_causes(path: Path, file: File) -> list[Cause]:
    """The causes of a paper, in the file's order; none without the file. InputError, one line with file and cause, for
    an entry without source, prediction or second number, and for an unknown claim or earlier cause."""
    if not path.is_file():
        return []
    content = user_files.read_yaml(path, "causes file")
    if not isinstance(content, list):
        raise InputError(f"{path}: must be a list of causes")
    claims = [claim.id for claim in file.claims if claim.value is not None]
    causes: list[Cause] = []
    for number, entry in enumerate(content):
        name = f"cause {entry.get('id', number) if isinstance(entry, dict) else number}"
        try:
            cause = check_fields(Cause, entry, name)
        except InputError as error:
            text = str(error)
            raise InputError(f"{path}: {text if text.startswith(name) else f'{name}: {text}'}") from None
        earlier = [each.id for each in causes]
        if cause.id in earlier:
            raise InputError(f"{path}: {name} stands there twice")
        if cause.after is not None and cause.after not in earlier:
            raise InputError(f"{path}: {name}: {unknown_name('earlier cause', cause.after, earlier)}")
        for claim in (*cause.predicts, *cause.second, *cause.value):
            if claim not in claims:
                raise InputError(f"{path}: {name}: {unknown_name('claim with a number', claim, claims)}")
        causes.append(cause)
    ids = [cause.id for cause in causes]
    for cause in causes:
        for other in cause.excludes:
            if other not in ids or other == cause.id:
                known = [each for each in ids if each != cause.id]
                raise InputError(f"{path}: cause {cause.id}: excludes: {unknown_name('other cause', other, known)}")
    return causes


@dataclass(frozen=True)
class Comparison:
    """A printed number with our number from the runs with a cause, from those without, which may have earlier causes,
    and from the claim's own runs; None: no such run."""

    claim: Claim
    predicted: float
    with_cause: float | None
    without: float | None
    ours: float | None

    def hits(self, ours: float | None) -> bool:
        """Whether a number of ours is in the paper's range with its tolerance."""
        return ours is not None and in_range(*self.claim.widened)(ours)


@dataclass(frozen=True)
class Step:
    """What a cause does to one claim's number, and to the second numbers that it must give too. rival: whether a cause
    that cannot be true together with this one is tested as well."""

    cause: Cause
    headline: Comparison
    second: Sequence[Comparison]
    rival: bool = False

    @property
    def status(self) -> str:
        """tested: with the cause our number is the paper's, without it not, and the second numbers are the paper's too;
        rival: the same of causes that exclude each other; implied: the same as tested with a fitted input; no fit:
        with it a number misses the paper's; conjecture: the runs are missing, or our number is the paper's without it
        too."""
        every = (self.headline, *self.second)
        if self.headline.without is None or any(each.with_cause is None for each in every):
            return CONJECTURE
        if not all(each.hits(each.with_cause) for each in every):
            return NO_FIT
        if self.headline.hits(self.headline.without):
            return CONJECTURE
        if self.cause.fitted:
            return IMPLIED
        return RIVAL if self.rival else TESTED


def judge_causes(causes: Sequence[Cause], evaluator: ClaimEvaluator) -> list[Step]:
    """A step for each claim that each cause explains, in the file's order; numbers are those of best guesses."""
    claims = {claim.id: claim for claim in evaluator.file.claims}
    by_id = {cause.id: cause for cause in causes}

    def compare(cause: Cause, predictions: Predictions) -> Iterator[Comparison]:
        for name, predicted in predictions.items():
            claim = claims[name]
            ours = _number(claim, cause.kind, evaluator)
            yield Comparison(claim, predicted, number_with(cause, claim, evaluator), without(cause, claim), ours)

    def without(cause: Cause, claim: Claim) -> float | None:
        if cause.after:
            return number_with(by_id[cause.after], claim, evaluator)
        experiment = cause.without or claim.experiment
        return _number(claim.model_copy(update={"experiment": experiment}), cause.kind, evaluator)

    steps = [
        Step(cause, headline, [*compare(cause, cause.second)])
        for cause in causes
        for headline in compare(cause, cause.predicts)
    ]
    tested = {step.cause.id: step.cause for step in steps if step.status == TESTED}

    def has_rival(cause: Cause) -> bool:
        return any(cause.id in other.excludes or other.id in cause.excludes for other in tested.values())

    return [replace(step, rival=has_rival(step.cause)) for step in steps]


def number_with(cause: Cause, claim: Claim, evaluator: ClaimEvaluator) -> float | None:
    """Our number for a claim from the runs that have a cause; None where there are none."""
    if cause.experiment is None:
        return None
    of_runs: dict[str, Any] = {"experiment": cause.experiment, "value": cause.value.get(claim.id, claim.value)}
    return _number(claim.model_copy(update=of_runs), cause.kind, evaluator)


def _number(claim: Claim, kind: str, evaluator: ClaimEvaluator) -> float | None:
    """Our number for a claim with every input at its best guess."""
    group = evaluator.runs_for(claim, kind)
    return None if group is None else median_or_none(outcome_of(claim, group).values.values())


def claim_statuses(steps: Sequence[Step]) -> dict[tuple[str, str], str]:
    """(experiment of a cause, claim) -> the cause's status for this claim; of a claim that is only a second number the
    surest of the steps that have it."""
    run = [step for step in steps if step.cause.experiment]
    surest_last = sorted(run, key=lambda step: -STATUSES.index(step.status))
    seconds = {
        (step.cause.experiment or "", each.claim.id): step.status for step in surest_last for each in step.second
    }
    return seconds | {(step.cause.experiment or "", step.headline.claim.id): step.status for step in run}


def steps_of_paper(paper: str, evaluator: ClaimEvaluator) -> list[Step]:
    """The steps of a paper's causes file; InputError as `read_causes`."""
    path = config_folders.report_folder(paper) / "causes.yaml"
    return judge_causes(read_causes(path, evaluator.file), evaluator)
