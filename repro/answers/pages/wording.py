"""Verdicts and numbers of claims as text, the same on all pages: ours with its range, the verdict, and its reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from repro.answers.claims.causes import CONJECTURE
from repro.answers.claims.claims import File, Paper, Reason
from repro.answers.claims.decides import NONE
from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.claims.stats import DASH, TIMES, format_number
from repro.answers.claims.verdict import (
    BY_CONSTRUCTION,
    HEADINGS,
    NOT_RUN,
    UNJUDGED,
    WORDS,
    Interval,
)
from repro.answers.pages.markdown import Markdown
from repro.records.catalogue import WORKSPACE

if TYPE_CHECKING:
    import pandas as pd

POINTS = "points"  # in the place of what a claim is about: its number is a difference of shares
Statuses = Mapping[tuple[str, str], str]  # (experiment of a cause, claim) -> the status of the cause for this claim


def ours(judged: ClaimVerdict, part: str = "") -> str:
    """`2.50× (1.16 to 3.50)`, marked if the machine was busy or arithmetic takes no time; a dash without a number.
    part: only its `point` or `range`, with two digits, or the number with inputs as `configured`."""
    if judged.estimate is None:
        return DASH
    about = POINTS if judged.claim.in_points else judged.claim.about
    if part == "configured":
        point = median(judged.evidence.values)
        return interval(judged.claim.paper, Interval(point, point, point), about)
    number = interval(judged.claim.paper, judged.estimate, about, part)
    return number if part else ", ".join(filter(None, [number, judged.evidence.busy, judged.evidence.unpriced]))


def interval(paper: Paper, estimate: Interval, about: str = "time", part: str = "") -> str:
    """Our number and its range, in the unit of the paper's number."""
    digits = 2 if part else 3
    low, point, high = (value(paper, each, about, digits) for each in (estimate.low, estimate.point, estimate.high))
    ends = f"{low} to {high}" if low != high else point
    if part:
        return {"point": point, "range": ends}[part] + (" %" if paper.unit == "%" else "")
    unit = " points" if about == POINTS else {"x": TIMES, "%": " %"}.get(paper.unit, "")
    of_draw = "; median draw" if estimate.median else ""
    return f"{point}{unit}" + (f" ({ends}{of_draw})" if low != high else "")


def value(paper: Paper, number: float, about: str = "time", digits: int = 3) -> str:
    """A number in the unit of the paper's; differences of accuracies (`POINTS`) in percentage points, accuracies with
    four decimals, with two digits as percentage points."""
    if about == POINTS:
        return _percentage(number, "+")
    if about == "accuracy" and not paper.unit and abs(number) <= 1:
        return _percentage(number) if digits == 2 else f"{number:.4f}"
    if about == "data" and float(number).is_integer():
        return format_number(int(number))  # a count
    return format_number(100 * number if paper.unit == "%" else number, digits)


def _percentage(share: float, sign: str = "") -> str:
    digits = 1 if abs(share) >= 0.0095 else 2
    return f"{round(100 * share, digits) + 0.0:{sign}.{digits}f}"  # no -0.00


def own_number(number: str, kind: str, own: bool) -> str:
    """`2.50× (1.16 to 3.50), emulated`: the text of `ours`, its kind, and whether it includes runs of the workspace."""
    return DASH if number == DASH else ", ".join([number, kind, *(["yours"] if own else [])])


def state_number(judged: ClaimVerdict) -> str:
    """`own_number` of a verdict."""
    return own_number(ours(judged), judged.kind, is_own(judged))


def state_verdict(judged: ClaimVerdict) -> str:
    """The verdict's text, or what a claim without a verdict has instead."""
    return judged.verdict.text if judged.verdict.judged else unjudged_word(judged)


def cell(judged: ClaimVerdict) -> str:
    """`open (30 of 64): 2.50× (1.16 to 3.50)`"""
    if judged.verdict.answer == NOT_RUN and not judged.verdict.reason:
        return DASH
    text = judged.verdict.text if judged.verdict.judged else judged.verdict.answer
    return f"{text}: {ours(judged)}" if judged.estimate else text


def reasons(of_kinds: Sequence[ClaimVerdict], file: File) -> list[Reason]:
    """The reasons in the claims file why a claim does not hold as printed, or what speaks against it if it does."""
    judged = [each for each in of_kinds if each.verdict.judged]
    reasons = [reason for reason in file.reasons if of_kinds[0].claim.id in reason.claims]
    return [
        reason
        for reason in reasons
        if any(reason.kind in (None, each.kind) and reason.caveat == each.verdict.as_printed for each in judged)
    ]


def state_basis(reason: Reason, claim: str, statuses: Statuses) -> str:
    """What a reason rests on: the status of the cause whose runs it names; else `drawn` or `run`; else `conjecture`, or
    `proved`: then the paper's own numbers do not give the printed one, and what made it is not known."""
    if reason.tested is None:
        return ("proved" if reason.caveat else "proved, cause unknown") if reason.proved else CONJECTURE
    return statuses.get((reason.tested, claim), "drawn" if "--draws" in reason.tested.split() else "run")


def state_reason(reason: Reason, claim: str, statuses: Statuses) -> Markdown:
    """A reason in full, what it rests on, and the experiment that shows it."""
    runs = (
        f": {reason.tested}" if reason.tested else ": [derivation](../../docs/derivations.md)" if reason.proved else ""
    )
    return Markdown(f"{reason.cause} ({state_basis(reason, claim, statuses)}{runs})")


def unjudged_word(judged: ClaimVerdict) -> str:
    """`not judged: not run`, `by construction`: the heading under which a claim without a verdict is listed, and what
    it has instead; of one that has a number the heading alone."""
    ran = judged.verdict.answer == NOT_RUN and judged.estimate
    return heading_of(judged) if ran else ": ".join(dict.fromkeys([heading_of(judged), judged.verdict.answer]))


def unjudged_reason(judged: ClaimVerdict) -> str:
    """Why there is no verdict, or no reliable one: Markdown of the claims file, or text."""
    return judged.verdict.reason if judged.claim.not_here is None else Markdown(judged.verdict.reason)


def explain_verdict(of_kinds: Sequence[ClaimVerdict], file: File, statuses: Statuses) -> Markdown:
    """The reasons why a claim does not hold as printed; else why it is not judged, and what a verdict needs."""
    claim, judged = of_kinds[0].claim, any(each.verdict.judged for each in of_kinds)
    if listed := reasons(of_kinds, file):
        return Markdown(" ").join(state_reason(each, claim.id, statuses) for each in listed)
    if any(each.verdict.judged and not each.verdict.as_printed for each in of_kinds):
        return Markdown(DASH)
    unjudged = [each for each in of_kinds if each.verdict.answer in UNJUDGED and each.verdict.reason]
    alike = len({each.verdict.reason for each in unjudged}) == 1 and not judged
    form = Markdown("{1}" if alike else "{0}: {1}")
    texts = sorted({form.format(each.kind, unjudged_reason(each)) for each in unjudged})
    if claim.takes and not judged:
        texts.append(Markdown(f"takes {claim.takes}"))
    return Markdown("; ").join(texts) or Markdown(DASH)


def short_reason(judged: ClaimVerdict, file: File) -> str:
    """The first reason in a few words; a dash if the claim holds as printed without a caveat."""
    if listed := reasons([judged], file):
        return Markdown(listed[0].short or listed[0].cause)
    if judged.verdict.answer in UNJUDGED:
        named = [Markdown(each.short) for each in file.reasons if judged.claim.id in each.claims and each.short]
        if named:
            return named[0]
    if judged.verdict.answer == BY_CONSTRUCTION:
        return "Assumed inputs alone set this number."
    if not judged.verdict.as_printed and judged.evidence.decided_by not in ("", NONE):
        return f"It depends most on an assumed input, {judged.evidence.decided_by}."
    return DASH if judged.verdict.judged else unjudged_reason(judged) or DASH


NUMBERS = ("paper_low", "paper_high", "low", "ours", "high")  # columns of `describe_headlines`; NaN: no number


def describe_headlines(headlines: Sequence[ClaimVerdict]) -> pd.DataFrame:
    """A row for each headline: claim, unit, paper_low, paper_high, low, ours, high, heading (of its verdict),
    label (with factors), share, kind, own (includes runs of the workspace), printed and number (the paper's and ours as
    text).

    unit: `x` for ratios; "": the numbers are divided by the paper's; `-`: no number above 0 on an axis of ratios.
    """
    import pandas as pd

    rows = []
    for decisive in headlines:
        claim = decisive.claim
        ratio, printed = claim.paper.unit == "x", (claim.paper.low, claim.paper.high)
        by = 1.0 if ratio else max(filter(None, printed), default=0.0)
        ends = (
            [end / by for end in (decisive.estimate.low, decisive.estimate.point, decisive.estimate.high)]
            if decisive.estimate and by > 0
            else []
        )
        fits = bool(ends) and ends[1] > 0 and all(map(math.isfinite, ends))
        paper = [math.nan if end is None or not fits else end / by for end in printed]
        share = decisive.verdict.share.text if decisive.verdict.share and decisive.verdict.share.drawn else ""
        rows.append(
            {"claim": claim.text, "unit": ("x" if ratio else "") if fits else "-"}
            | dict(zip(NUMBERS, [*paper, *(ends or [math.nan] * 3)], strict=True))
            | {
                "heading": heading_of(decisive),
                "label": decisive.verdict.label if decisive.verdict.judged else unjudged_word(decisive),
                "share": share,
                "kind": decisive.kind,
                "own": is_own(decisive),
            }
            | {"printed": claim.paper.shown, "number": ours(decisive)}
        )
    return pd.DataFrame(rows)


def is_own(judged: ClaimVerdict) -> bool:
    """Whether our number includes runs of the workspace."""
    return WORKSPACE in judged.evidence.origin


def count_headings(judged: Iterable[ClaimVerdict]) -> dict[str, int]:
    """Heading -> the number of these verdicts, in the order of HEADINGS."""
    counts = Counter(map(heading_of, judged))
    return {name: counts[name] for name in HEADINGS if counts[name]}


def describe_counts(headings: Iterable[str]) -> str:
    """`58 headline claims: 21 open, ...`, in the order of HEADINGS."""
    counts = Counter(headings)
    listed = ", ".join(f"{counts[name]} {name}" for name in HEADINGS if counts[name])
    return f"{sum(counts.values())} headline claims: {listed}."


def heading_of(judged: ClaimVerdict) -> str:
    """The heading under which a verdict is listed."""
    return WORDS[judged.verdict.answer].heading or judged.verdict.answer
