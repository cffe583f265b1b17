"""How a judged claim is said: ours with its range, the verdict, why it does not hold; in one way everywhere."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from repro.answers.claims.claims import File, Paper, Reason
from repro.answers.claims.decides import NONE
from repro.answers.claims.evaluate import Judged
from repro.answers.claims.stats import DASH, TIMES, number
from repro.answers.claims.verdict import CONFIRMED, GIVEN, IN_DIRECTION, NOT_RUN, OPEN, REFUTED, UNJUDGED, Interval
from repro.records.catalogue import WORKSPACE
from repro.records.kinds import EMULATED, MEASURED, PADDED, SIMULATED

if TYPE_CHECKING:
    import pandas as pd

# which kind's verdict stands for a claim, if it has one
DECIDING = (MEASURED, EMULATED, SIMULATED, PADDED)
NOT_JUDGED = "not judged"
STRIP = (REFUTED, OPEN, IN_DIRECTION, CONFIRMED, NOT_JUDGED, *GIVEN)  # of a page of claims, what does not hold first


def ours(one: Judged, part: str = "") -> str:
    """`2.50× (1.16 to 3.50)`; nothing where there is no number. part: `point` or `range` alone, in plain English."""
    if one.ours is None:
        return DASH
    return interval(one.claim.paper, one.ours, one.claim.about, part)


def interval(paper: Paper, of: Interval, about: str = "time", part: str = "") -> str:
    """A number of ours and its range, in the unit in which the paper's stands."""
    digits = 2 if part else 3
    low, point, high = (value(paper, each, about, digits) for each in (of.low, of.point, of.high))
    unit = {"x": "" if part else TIMES, "%": " %"}.get(paper.unit, "")
    among = f"{low} to {high}" if low != high else point
    if part:
        return {"point": point, "range": among}[part] + unit
    return f"{point}{unit}" + (f" ({among})" if low != high else "")


def value(paper: Paper, of: float, about: str = "time", digits: int = 3) -> str:
    """A number in the unit of the paper's; shares to four places."""
    if about == "accuracy" and paper.unit != "x" and abs(of) <= 1:
        return f"{of:.4f}"
    return number(100 * of if paper.unit == "%" else of, digits)


def cell(one: Judged, reasons: bool = False) -> str:
    """`open (30 of 64): 2.50× (1.16 to 3.50)`; reasons: also why there is no verdict."""
    if one.verdict.answer == NOT_RUN and not one.verdict.reason:
        return DASH
    text = one.verdict.text if reasons or one.verdict.judged else one.verdict.answer
    return f"{text}: {ours(one)}" if one.ours else text


def deciding(of_kinds: Sequence[Judged]) -> Judged:
    """The verdict that stands for a claim: of what is measured before what is modelled, of what is judged first, then
    of what went in."""
    order = sorted(of_kinds, key=lambda one: DECIDING.index(one.kind))
    judged = [one for one in order if one.verdict.judged]
    settled = [one for one in judged if one.verdict.answer != OPEN]
    given = [one for one in order if one.verdict.answer in GIVEN]
    spoken = [one for one in order if one.verdict.answer != NOT_RUN]
    return (settled or judged or given or spoken or order)[0]


def reasons(of_kinds: Sequence[Judged], file: File) -> list[Reason]:
    """Why a claim does not hold as printed, as far as the claims file says so."""
    unsettled = [one for one in of_kinds if one.verdict.judged and not one.verdict.settled]
    own = [reason for reason in file.reasons if of_kinds[0].claim.id in reason.claims]
    return [reason for reason in own if any(reason.kind in (None, one.kind) for one in unsettled)]


def told(reason: Reason) -> str:
    """A reason in full, and whether it was tested."""
    return f"{reason.cause} ({f'tested: {reason.tested}' if reason.tested else 'conjecture'})"


def why(of_kinds: Sequence[Judged], file: File) -> str:
    """Why a claim does not hold as printed, where the claims file says so; else why it was not judged, and what a
    verdict would take."""
    if found := reasons(of_kinds, file):
        return " ".join(map(told, found))
    claim, judged = of_kinds[0].claim, any(one.verdict.judged for one in of_kinds)
    if any(one.verdict.judged and not one.verdict.settled for one in of_kinds):
        return DASH
    unjudged = [one for one in of_kinds if one.verdict.answer in UNJUDGED and one.verdict.reason]
    alike = len({one.verdict.reason for one in unjudged}) == 1 and not judged
    said = sorted({one.verdict.reason if alike else f"{one.kind}: {one.verdict.reason}" for one in unjudged})
    if claim.takes and not judged:
        said.append(f"takes {claim.takes}")
    return "; ".join(said) or DASH


def short(one: Judged, file: File) -> str:
    """The same of one kind of number in a few words; nothing where the claim holds as printed."""
    if found := reasons([one], file):
        return found[0].short or textwrap.shorten(found[0].cause, 90, placeholder=" ...")
    if not one.verdict.settled and one.evidence.decided_by not in ("", NONE):
        return f"It depends most on an assumed input: {one.evidence.decided_by}."
    return DASH if one.verdict.judged else one.verdict.reason or DASH


def by_claim(judged: Sequence[Judged]) -> Mapping[str, list[Judged]]:
    """claim -> one for each kind, in the file's order."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        found.setdefault(one.claim.id, []).append(one)
    return found


NUMBERS = ("paper_low", "paper_high", "low", "ours", "high")  # of a row of `headlines`; NaN: none


def headlines(by_claim: Mapping[str, Sequence[Judged]]) -> pd.DataFrame:
    """A row a headline, by the kind that decides it: claim, unit (`x`, or nothing: then its numbers stand over the
    paper's; `-`: it has none, or none that an axis of ratios has a place for), paper_low, paper_high, low, ours, high,
    verdict, share, kind, own (of runs of the workspace), said (the numbers as text)."""
    import pandas as pd

    rows = []
    for of_kinds in by_claim.values():
        one, claim = deciding(of_kinds), of_kinds[0].claim
        paper, ratio = [end for end in (claim.paper.low, claim.paper.high) if end], claim.paper.unit == "x"
        by = 1.0 if ratio else max(paper, default=0.0)
        if not claim.headline:
            continue
        known = (one.ours.low, one.ours.point, one.ours.high) if one.ours and by > 0 else ()
        numbers = [end / by for end in known] or [math.nan] * 3
        drawn = numbers[0] > 0 and all(map(math.isfinite, numbers))
        printed = [math.nan if end is None or not drawn else end / by for end in (claim.paper.low, claim.paper.high)]
        names = ("claim", "unit", *NUMBERS, "verdict", "share", "kind", "own", "said")
        share = one.verdict.share.text if one.verdict.share and one.verdict.share.drawn else ""
        unit = ("x" if ratio else "") if drawn else "-"
        said = f"paper: {claim.paper.shown}; ours: {ours(one)}"
        row = (claim.text, unit, *printed, *numbers, place(one), share, one.kind, mine(one), said)
        rows.append(dict(zip(names, row, strict=True)))
    return pd.DataFrame(rows)


def mine(one: Judged) -> bool:
    """Whether runs of the workspace are in our number."""
    return WORKSPACE in one.evidence.origin


def strip(by_claim: Mapping[str, Sequence[Judged]]) -> dict[str, int]:
    """How many claims have which verdict, each by the kind of number that decides it."""
    found = Counter(place(deciding(of_kinds)) for of_kinds in by_claim.values())
    return {name: found[name] for name in STRIP if found[name]}


def place(one: Judged) -> str:
    """Under which heading a verdict stands."""
    return one.verdict.answer if one.verdict.judged or one.verdict.answer in GIVEN else NOT_JUDGED
