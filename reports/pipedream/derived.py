"""PipeDream's claims: numbers that no verb computes, from Table 1, Figures 1 to 12 and the memory of a stage.

Time to accuracy (Figures 10 to 12) is epochs (statistical efficiency) x seconds of an epoch (hardware efficiency).
Epochs are those of the accuracy runs, whose variants end in the row's number of machines; seconds of an epoch are those
of Table 1's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from repro.answers.claims.compute import by_seed, correlation_function, function, median_rates, rates_by_seed
from repro.answers.claims.evaluate import Outcome
from repro.answers.claims.stats import format_number as text
from repro.answers.figures import schedules
from repro.answers.tables.runs import Runs
from repro.answers.tables.time_to_target import compare_epochs, epochs_to
from repro.records.filters import select_rows
from repro.records.record import Found
from repro.reports.pipedream.stages import (
    ASP,
    BSP,
    MIXED,
    PIPEDREAM,
    SINGLE,
    Rates,
    describe_stages,
    machines,
    shape,
)
from repro.training.evaluation.metrics import lower_is_better

MEMORY = ("weights_bytes", "stash_bytes", "activation_bytes")
COUNTED: dict[str, Callable[..., Any]] = {
    name: getattr(schedules, name) for name in ("admitted", "interleaved", "updates_before", "busy", "at_once")
}


# --- Table 1


@function
def configuration_found(group: Runs, printed: str) -> Outcome:
    """1 if the partitioner chose the printed configuration, 0.5 for another one of the same kind, else 0."""

    def agreement(runs: Iterable[Found]) -> float | None:
        chosen = next(filter(None, (describe_stages(run) for run in runs if run.label == PIPEDREAM)), "")
        if not chosen:
            return None
        return 1.0 if chosen == printed else 0.5 if shape(chosen) == shape(printed) else 0.0

    return by_seed(group, agreement, "no configuration was found")


@function
def unmixed(group: Runs) -> Outcome:
    """The number of Table 1's rows whose configuration does not mix data, model and pipeline parallelism."""

    def number(runs: Iterable[Found]) -> float | None:
        configs = {run.identity.experiment: describe_stages(run) for run in runs if run.label == PIPEDREAM}
        kinds = [shape(config) for row, config in configs.items() if config and row.startswith("table1-")]
        return float(sum(kind != MIXED for kind in kinds)) if len(kinds) > 1 else None

    return by_seed(group, number, "fewer than two rows with a configuration")


def over(rates: Rates, row: str, variant: str, base: str) -> float | None:
    """A variant's rate over that of another; None if one of them was not run."""
    return rates[row, variant] / rates[row, base] if {(row, variant), (row, base)} <= rates.keys() else None


@correlation_function
def gain_follows_overhead(group: Runs) -> Outcome:
    """Spearman's correlation, over Table 1's rows, between BSP's stalled share and PipeDream's speed-up over BSP, one a
    seed."""
    bsp = select_rows(group.columns("runs", "variant", "experiment", "seed", "stalled"), {"variant": BSP})
    rows = bsp[bsp["experiment"].str.startswith("table1-")]
    correlations, rates_of = {}, rates_by_seed(group)
    for seed, stalled in rows[["seed", "experiment", "stalled"]].groupby("seed"):
        rates = rates_of[seed]
        pairs = stalled.assign(gain=[over(rates, row, PIPEDREAM, BSP) for row in stalled["experiment"]])
        ranks = pairs[["stalled", "gain"]].astype(float).dropna().rank()  # equal values have their mean rank
        if len(ranks) >= 4 and ranks.nunique().min() > 1:
            correlations[seed] = float(ranks.corr().loc["stalled", "gain"])
    return Outcome(correlations) if correlations else Outcome(reason="fewer than four rows that differ")


# --- Figure 1: communication overhead by model, GPU (a testbed) and number of workers


@function
def overhead_grows(group: Runs, along: str, each: Sequence[str]) -> Outcome:
    """The share of series (one for each value of the columns `each`) whose stalled share never falls along a column,
    one a seed.

    The testbeds' names sort by the speed of their GPUs.
    """
    columns = dict.fromkeys(["seed", "workers", "stalled", along, *each])
    several = select_rows(group.columns("runs", *columns), "workers>1").sort_values(along)
    growing: dict[int, list[bool]] = {}
    for (seed, *_), rows in several.groupby(["seed", *each]):
        if len(rows) > 1:
            growing.setdefault(seed, []).append(not (rows["stalled"].diff() < -1e-9).any())
    shares = {seed: fmean(series) for seed, series in growing.items()}
    return Outcome(shares) if shares else Outcome(reason="nothing to compare")


# --- Figures 10 to 12: time to accuracy


def row_rate(runs: Runs, rates: Rates, row: str, variant: str) -> float | None:
    """Samples a second of a variant in a row; ASP has the rate of as many machines that never wait (section 5.2)."""
    if variant != ASP:
        return rates.get((row, variant))
    alone = rates.get((row, SINGLE))
    return None if alone is None else machines(runs, row) * alone


@function
def epochs_ratio(group: Runs, variant: str, over: str, share: float = 1.0) -> Outcome:
    """Epochs of `over` to the target / those of `variant`; share: of the best common target."""
    return _reached(group, variant, over, share, 1.0)


@function
def time_to_accuracy(
    group: Runs, row: str, variant: str, over: str, over_row: str | None = None, share: float = 1.0
) -> Outcome:  # fmt: skip
    """Time to the target of `over` / that of `variant`."""
    rates, other = median_rates(group), over_row or row
    rate, base = row_rate(group, rates, row, variant), row_rate(group, rates, other, over)
    if rate is None or base is None:
        return Outcome(reason=f"no results for {variant} of {row} or {over} of {other}")
    names = (f"{variant}-{machines(group, row)}", f"{over}-{machines(group, other)}")
    return _reached(group, *names, share, rate / base)


def _reached(group: Runs, variant: str, over: str, share: float, faster: float) -> Outcome:
    """(epochs of `over` / epochs of `variant`) x faster, one a seed.

    The target is `share` of the best that all runs have, in place of the paper's advertised accuracy.
    """
    sides = [group.seeds(name) for name in (variant, over)]
    if missing := [name for name, runs in zip((variant, over), sides, strict=True) if not runs]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    if not (common := set.intersection(*(set(run.training.targets) for runs in sides for run in runs.values()))):
        return Outcome(reason="the runs have no target in common")
    targets, metric = sorted(map(float, common)), group.first.identity.metric
    target = targets[0] / share if lower_is_better(metric) else share * targets[-1]
    reached, base = ({seed: epochs_to(run, target) for seed, run in runs.items()} for runs in sides)
    known = {seed: faster * ratio for seed, ratio in compare_epochs(reached, base).items()}
    return (
        Outcome(known, variants=(variant, over))
        if known
        else Outcome(reason=f"{text(target)} not reached by {variant} nor {over}")
    )


# --- schedules (Figures 3, 4, 6 and 8)


@function
def traced(group: Runs, variant: str, number: str, machine: int | None = None, minibatch: int | None = None) -> Outcome:
    """A count from a variant's recorded intervals (`COUNTED`; the mean, if it is several numbers), one a seed.

    machine, minibatch: the one that the count is for, from 1.
    """
    runs = {seed: run for seed, run in group.seeds(variant, breakdown=True).items() if run.training.trace}
    if not runs:
        return Outcome(reason=f"no recorded intervals for {variant}")
    at = [place - 1 for place in (machine, minibatch) if place is not None]
    counts = {seed: COUNTED[number](run, *at) for seed, run in runs.items()}
    means = {seed: fmean(value) if isinstance(value, list) else float(value) for seed, value in counts.items()
             if value not in (None, [])}  # fmt: skip
    return Outcome(means) if means else Outcome(reason=f"nothing recorded to count {number.replace('_', ' ')} in")


# --- memory


def _worst(group: Runs, of_run: Callable[[Found], list[float]], reason: str) -> Outcome:
    """Of all numbers of a seed's runs the one farthest from 1."""
    numbers = {seed: [number for run in runs for number in of_run(run)] for seed, runs in group.by_seed().items()}
    values = {seed: max(each, key=lambda value: abs(value - 1)) for seed, each in numbers.items() if each}
    return Outcome(values) if values else Outcome(reason=reason)


@function
def in_flight(group: Runs, stage: str) -> Outcome:
    """The most minibatches in flight at once in a replica of runs with 1F1B: over NOAM in the input stage, as a number
    in the output stage of a pipeline."""

    def of_run(run: Found) -> list[float]:
        pipeline, ranks = run.training.pipeline or {}, run.training.per_rank
        strategy = run.identity.strategy
        last = max((rank["stage"] for rank in ranks), default=0)
        admits = strategy.name == PIPEDREAM and strategy.options.get("in_flight") is None
        if not admits or pipeline.get("schedule") != "1f1b" or (stage == "output" and not last):
            return []
        which, over = (last, 1) if stage == "output" else (0, pipeline["noam"])
        return [max(rank["in_flight"] for rank in ranks if rank["stage"] == which) / over]

    return _worst(group, of_run, "no run with 1F1B says what was in flight")


@function
def memory_off(group: Runs) -> Outcome:
    """Observed over predicted memory of a rank (weights, stashes and activations), the one farthest from 1."""

    def of_run(run: Found) -> list[float]:
        ranks = [rank for rank in run.training.per_rank if rank.get("predicted")]
        return [sum(rank[name] for name in MEMORY) / sum(rank["predicted"][name] for name in MEMORY) for rank in ranks]

    return _worst(group, of_run, "no run says its memory a rank")
