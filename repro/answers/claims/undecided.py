"""Reasons why runs do not decide a claim: what was not drawn, other data or minibatches, shared or busy machines."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

from repro.answers.claims.claims import Claim
from repro.answers.claims.drawn import Sweeps
from repro.answers.tables.columns import Filter
from repro.answers.tables.runs import Runs
from repro.records.busy import on_busy_machine, shared_by_ranks
from repro.records.record import Found
from repro.records.run_columns import TARGET
from repro.records.variants import place

NO_DRAWS = "its inputs are not drawn"
NO_NUMBERS = "its inputs are drawn for times alone, and no target is reached without arithmetic"


def nothing_drawn(claim: Claim, configured: Mapping[int, float], values: Mapping[int, float]) -> str:
    """The reason why sweeps give no number for a claim; configured: its numbers as configured, values: at the draws."""
    if configured and values:
        return NO_NUMBERS if all(map(math.isnan, values.values())) else ""
    return NO_NUMBERS if of_target(claim) else NO_DRAWS  # a side was not drawn


def of_target(claim: Claim) -> bool:
    """Whether a claim's number is computed from the time or iterations to a target."""
    return claim.value is not None and any((column or "").startswith(TARGET) for column, _ in claim.value.sides)


def not_all_drawn(claim: Claim, simulated: Runs | None, sweeps: Sweeps) -> str:
    """The reason why sweeps do not cover a claim: some simulated runs that its verb chooses were not drawn."""
    value = claim.value
    if simulated is None or value is None or value.verb is None or value.table != "runs":
        return ""
    lacking = any(_places(simulated, where) - _places(sweeps.configured, where) for _, where in value.sides)
    return NO_DRAWS if lacking else ""


def _places(runs: Runs, where: Filter) -> set[tuple[Hashable, ...]]:
    records = [*runs.records.values()]
    return {place(records[number]) for number in runs.matching("runs", where)}


def reason_without_draws(group: Runs) -> str:
    """The reason why runs on testbeds with assumed inputs are not judged without draws."""
    return NO_DRAWS if any(run.identity.testbed.assumed for run in group.records.values()) else ""


def not_testable(claim: Claim, group: Runs) -> str:
    """The reason why these runs cannot test a claim."""
    if claim.about == "accuracy" and group.timing_only:
        return "Only times are simulated, no accuracies."
    if group.standin and (of_target(claim) or claim.about == "accuracy"):
        return "stand-in data"
    return other_minibatches(claim, group)


def other_minibatches(claim: Claim, group: Runs) -> str:
    """Why the runs on both sides of a difference of accuracies are no pairs: they drew other minibatches."""
    if not claim.in_points or claim.value is None or claim.value.verb != "difference":
        return ""  # a range of variants (`outside`) has no pairs
    if not group.numbers_of(table := claim.value.table):
        return ""
    sides = [group.of_rows(table, group.matching(table, where)) for _, where in claim.value.sides]
    read = [{_minibatches(run) for run in side} for side in sides]
    if len(set.union(*read)) < 2:
        return ""
    shown = (" or ".join(f"{batch:,} of {name}" for batch, name, *_ in sorted(side, key=str)) for side in read)
    return f"pairs with other minibatches: {'; '.join(shown)}"


def _minibatches(run: Found) -> tuple[Any, ...]:
    """What decides, with the seed, which examples an iteration has."""
    data = run.dataset
    return run.identity.batch, data.name if data else "no data", data.more.get("checksum") if data else None


def shared_cores(claim: Claim, group: Runs) -> str:
    """The reason why measured times are out of scope: ranks share cores or a GPU, which the papers' ranks do not."""
    if claim.about != "time" or not claim.own_cores:
        return ""
    return next(filter(None, map(shared_by_ranks, group.records.values())), "")


def busy_machine(claim: Claim, group: Runs) -> str:
    """`on a busy machine (31 % taken by others)` if times were measured on one, else ""."""
    shares = (run.record.cpu_taken_share for run in group.records.values())
    known = [share for share in shares if share is not None]
    return on_busy_machine(group.kind, max(known, default=None)) if claim.about == "time" else ""
