"""Which verdict decides a claim that has one for each kind of number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.claims.verdict import GIVEN, NOT_RUN
from repro.records.kinds import DECIDING


def group_by_claim(judged: Sequence[ClaimVerdict]) -> Mapping[str, list[ClaimVerdict]]:
    """claim -> its verdicts, one for each kind, in the file's order."""
    claims: dict[str, list[ClaimVerdict]] = {}
    for each in judged:
        claims.setdefault(each.claim.id, []).append(each)
    return claims


def choose_verdict(of_kinds: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """The verdict that decides a claim: a decided one, else any, else one that an input decides, else one that was run,
    else one with a number; of several the first in the order of DECIDING."""
    order = sorted(of_kinds, key=lambda each: DECIDING.index(each.kind))
    judged = [each for each in order if each.verdict.judged]
    decided = [each for each in order if each.verdict.decided]
    by_input = [each for each in order if each.verdict.answer in GIVEN]
    run = [each for each in order if each.verdict.answer != NOT_RUN]
    with_number = [each for each in order if each.estimate]
    return (decided or judged or by_input or run or with_number or order)[0]
