"""Verdicts, computed from a claim and the results; never typed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro.reports.claims import Claim
from repro.reports.compute import FUNCTIONS, OF_PROBES
from repro.reports.groups import Group, length
from repro.reports.loading import KINDS
from repro.reports.probes import ProbeGroup
from repro.reports.stats import DASH, TIMES, Spread, number, spread

MATCHES, DIRECTION, DIFFERS, NOT_ATTEMPTED = "matches", "same direction", "differs", "not attempted"
VERDICTS = (MATCHES, DIRECTION, DIFFERS, NOT_ATTEMPTED)


@dataclass(frozen=True)
class Verdict:
    """A claim judged for one kind of number: label, what limits it, and ours where there is one."""

    claim: Claim
    kind: str
    label: str
    limits: tuple[str, ...] = ()
    ours: Spread | None = None
    note: str = ""
    group: Group | ProbeGroup | None = None

    @property
    def text(self) -> str:
        """`matches; provisional (1 of 5 seeds)` or `not attempted (stand-in data)`."""
        if self.label == NOT_ATTEMPTED:
            return f"{self.label} ({'; '.join(self.limits)})" if self.limits else self.label
        return "; ".join((self.label, *self.limits))

    @property
    def ours_text(self) -> str:
        """Ours in the claim's unit, with interval and seeds."""
        if self.ours is None:
            return DASH
        scale = 100 if self.claim.unit == "%" else 1
        unit = {"x": TIMES, "%": " %"}.get(self.claim.unit, "")

        def one(value: float) -> str:
            if self.claim.about == "accuracy" and self.claim.unit != "x" and math.isfinite(value):
                return f"{value:.4f}"
            return number(value * scale)

        ours = self.ours
        interval = f" [{one(ours.low)}{DASH}{one(ours.high)}]" if one(ours.low) != one(ours.high) else ""
        return f"{one(ours.median)}{unit}{interval} ({ours.n} seed{'s' if ours.n != 1 else ''})"


def judge(claim: Claim, kind: str, group: Group | ProbeGroup | None) -> Verdict:
    """The verdict on one claim from one group of results (None: there are none)."""
    if group is None:
        return Verdict(claim, kind, NOT_ATTEMPTED, ("no results",))
    program = group.program if isinstance(group, ProbeGroup) else "train"
    if (wanted := OF_PROBES.get(claim.compute, "train")) != program:
        reason = f"{claim.compute} reads results of the program {wanted}, not of {program}"
        return Verdict(claim, kind, NOT_ATTEMPTED, (reason,), group=group)
    if group.timing_only and claim.about == "accuracy":
        return Verdict(claim, kind, NOT_ATTEMPTED, ("timing only: no accuracy is computed",), group=group)
    if group.standin and claim.about == "accuracy":
        return Verdict(claim, kind, NOT_ATTEMPTED, ("stand-in data",), group=group)
    outcome = FUNCTIONS[claim.compute](group, **claim.arguments)
    values = [value for value in outcome.values.values() if not math.isnan(value)]
    if not values:
        return Verdict(
            claim, kind, NOT_ATTEMPTED, (outcome.reason or "nothing recorded to compute it from",), group=group
        )
    ours = spread(values)
    return Verdict(claim, kind, label(claim, ours.median), _limits(claim, kind, group, ours), ours, outcome.note, group)


def label(claim: Claim, value: float) -> str:
    """matches: inside the paper's range widened by the tolerance; same direction: on the claim's side; else differs."""
    low, high = widened(claim)
    if (low is None or value >= low) and (high is None or value <= high):
        return MATCHES
    if (claim.above is None or value > claim.above) and (claim.below is None or value < claim.below):
        return DIRECTION
    return DIFFERS


def widened(claim: Claim) -> tuple[float | None, float | None]:
    """The range that counts as a match."""
    low, high = claim.low, claim.high
    if low is not None:
        low = low - abs(low) * claim.relative - claim.absolute
    if high is not None:
        high = high + abs(high) * claim.relative + claim.absolute
    return low, high


def _limits(claim: Claim, kind: str, group: Group | ProbeGroup, ours: Spread) -> tuple[str, ...]:
    limits = []
    least = claim.minimum_seeds[kind]
    if ours.n < least:
        limits.append(f"provisional ({ours.n} of {least} seeds)")
    scale = group.first.get("scale")
    if claim.about == "accuracy" and scale not in (None, "paper"):
        limits.append(f"scale {scale}: {length(group)}" if isinstance(group, Group) else f"scale {scale}")
    if group.standin and claim.about != "data":
        limits.append("on stand-in data")
    if ours.n > 1 and label(claim, ours.low) != label(claim, ours.high):
        limits.append("the seeds' interval spans more than one verdict")
    return tuple(limits)


def judge_all(claims: tuple[Claim, ...], find: Callable[[str, str], Group | ProbeGroup | None]) -> list[Verdict]:
    """One verdict a claim and kind, in the file's order; `find(experiment, kind)` gives the results."""
    return [judge(claim, kind, find(claim.experiment, kind)) for claim in claims for kind in KINDS]


def about(verdicts: Sequence[Verdict], *experiments: str) -> list[Verdict]:
    """Those of claims that results of these experiments speak to."""
    return [verdict for verdict in verdicts if verdict.claim.experiment in experiments]
