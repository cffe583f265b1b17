"""Figures 10 to 12: time to accuracy = epochs (statistical efficiency) x seconds of an epoch (hardware efficiency).

Epochs are those of the accuracy runs, whose variants have the row's number of machines behind their names; seconds of
an epoch are those of Table 1's rows.
"""

from __future__ import annotations

from repro.answers.claims.compute import function, rates
from repro.answers.claims.evaluate import Outcome
from repro.answers.claims.evaluate import ratio as quotient
from repro.answers.claims.stats import number
from repro.answers.tables.loading import Summary
from repro.answers.tables.runs import Runs
from repro.reports.pipedream.stages import ASP, SINGLE, Rates, machines


def epochs_to(run: Summary, target: float) -> float:
    """Epochs to the first evaluation at or above the target; infinity where there is none."""
    reached = [point["epoch"] for point in run["curve"] if (point.get(run["metric"]) or 0.0) >= target]
    return min(reached, default=float("inf"))


def row_rate(runs: Runs, of: Rates, row: str, variant: str) -> float | None:
    """Samples a second of a variant in a row; of ASP that was not run those of as many machines that never wait."""
    rate, alone = of.get((row, variant)), of.get((row, SINGLE))
    return machines(runs, row) * alone if rate is None and variant == ASP and alone is not None else rate


@function
def epochs_ratio(group: Runs, variant: str, over: str, share: float = 1.0) -> Outcome:
    """Epochs that `over` needs for the target / those of `variant`; share: of the highest target."""
    return _reached(group, variant, over, share, 1.0)


@function
def time_to_accuracy(
    group: Runs, row: str, variant: str, over: str, over_row: str | None = None, share: float = 1.0
) -> Outcome:  # fmt: skip
    """Time to the target of `over` / that of `variant`."""
    of, other = rates(group), over_row or row
    one, base = row_rate(group, of, row, variant), row_rate(group, of, other, over)
    if one is None or base is None:
        return Outcome(reason=f"no results for {variant} of {row} or {over} of {other}")
    names = (f"{variant}-{machines(group, row)}", f"{over}-{machines(group, other)}")
    return _reached(group, *names, share, one / base)


def _reached(group: Runs, variant: str, over: str, share: float, faster: float) -> Outcome:
    """(epochs of `over` / epochs of `variant`) x faster, seed by seed; to the highest target that all runs have, in the
    place of the paper's advertised accuracy, times `share`."""
    of = [group.seeds(name) for name in (variant, over)]
    if missing := [name for name, found in zip((variant, over), of, strict=True) if not found]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    if not (common := set.intersection(*(set(run["targets"]) for found in of for run in found.values()))):
        return Outcome(reason="the runs have no target in common")
    target = share * max(map(float, common))
    epochs = [{seed: epochs_to(run, target) for seed, run in found.items()} for found in of]
    values = {seed: faster * quotient(epochs[1][seed], epochs[0][seed]) for seed in sorted({*of[0]} & {*of[1]})}
    known = {seed: value for seed, value in values.items() if value == value}
    return Outcome(known) if known else Outcome(reason=f"{number(target)} not reached by {variant} nor {over}")
