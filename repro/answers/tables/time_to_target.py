"""Time to a target: epochs to the target (statistical efficiency) times the time of an epoch (hardware efficiency).

Epochs are those of runs with arithmetic, one a seed. The time of an epoch is that of the same runs, or of others
(`EpochTime`), over the draws of their inputs and the simulation's error. A target that is not reached takes infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, NamedTuple

import pandas as pd

from repro.answers.claims.evaluate import safe_ratio
from repro.answers.claims.stats import DASH, TIMES, format_number
from repro.answers.claims.undecided import reason_without_draws
from repro.answers.claims.verdict import Interval, Sample
from repro.answers.tables.results import Results
from repro.answers.tables.runs import Runs
from repro.core.errors import InputError
from repro.core.paths import reference_root
from repro.records.kinds import EMULATED, SIMULATED
from repro.records.record import Found
from repro.records.variants import WORKSPACE, user_changes

TABLE = "time_to_target"  # of a page, and of the overview
NOT_REACHED = "not reached"
REACHED, EPOCHS_TO = "seeds that reach it", "epochs to it"  # columns as text
FASTER, SOONER = "an epoch: times as fast", "to the target: times as fast"
EPOCHS, TIME = "by epochs", "by time"  # panels of a figure


class EpochTime(NamedTuple):
    """The variant of an experiment whose rate says how long an epoch takes; machines: times its rate."""

    experiment: str
    variant: str
    machines: int = 1


@dataclass(frozen=True)
class Target:
    """A target on a workload, and the variants that train it.

    over: the baseline, one of `variants`. variants: with their names on the page. times: of variants whose own runs do
    not say how long an epoch takes; examples: of an epoch then, None: those of the trained data.
    """

    workload: str
    experiment: str
    target: float
    over: str
    variants: Mapping[str, str]
    times: Mapping[str, EpochTime] = field(default_factory=dict)
    examples: float | None = None


def epochs_to(run: Found, target: float) -> float:
    """Epochs to the first evaluation as good as the target, or better; infinity if there is none."""
    from repro.training.evaluation.metrics import reaches_target  # a page without results imports no training

    metric = run.identity.metric
    scored = [(point["epoch"] or 0.0, point.get(metric)) for point in run.training.curve]
    reached = [epoch for epoch, score in scored if score is not None and reaches_target(metric, score, target)]
    return min(reached, default=math.inf)


def compare_epochs(epochs: Mapping[int, float], base: Mapping[int, float]) -> dict[int, float]:
    """The baseline's epochs to a target over a variant's, by seed; none for a seed at which neither reaches it."""
    ratios = {seed: safe_ratio(base[seed], epochs[seed]) for seed in sorted({*epochs} & {*base})}
    return {seed: ratio for seed, ratio in ratios.items() if not math.isnan(ratio)}


def tabulate_targets(results: Results, targets: Sequence[Target]) -> pd.DataFrame:
    """A row a target and variant: workload, target, variant, baseline (whether it is), kind, seeds, reached (of them);
    each with `_low` and `_high`: epochs, epoch_s, seconds, and the baseline's over the variant's in them, `fewer`,
    `faster` and `sooner`; emulated: `faster` of emulated runs, NaN without any.

    Raises InputError where the baseline of committed runs never reaches a target.
    """
    return pd.DataFrame([row for target in targets for row in _rows(results, target)])


class Trained(NamedTuple):
    """A variant's runs by seed, epochs to the target by seed, and seconds of an epoch: as configured, and by draw; no
    draws where inputs are assumed that were not drawn. emulated_s: those of emulated runs, NaN without any."""

    runs: Mapping[int, Found]
    epochs: Mapping[int, float]
    epoch_s: float
    draws_s: Mapping[int, float]
    emulated_s: float


def _rows(results: Results, target: Target) -> Iterator[dict[str, Any]]:
    called = _variants(results, target)
    variants = {name: trained for name in called if (trained := _trained(results, target, name))}
    if not (base := variants.get(target.over)):
        return
    if results.root == reference_root():
        check_reached(target, base)
    for name, variant in variants.items():
        numbers = _own_numbers(variant) | (_ratios(base, variant) if variant is not base else {})
        yield {
            "workload": target.workload,
            "target": target.target,
            "variant": called[name],
            "baseline": variant is base,
            "kind": SIMULATED,
            "seeds": len(variant.epochs),
            "reached": sum(map(math.isfinite, variant.epochs.values())),
            EMULATED: base.emulated_s / variant.emulated_s,
        } | {
            f"{column}{end}": number
            for column, ends in numbers.items()
            for end, number in (("_low", ends.low), ("", ends.point), ("_high", ends.high))
        }


def _variants(results: Results, target: Target) -> dict[str, str]:
    """The target's variants, and those of the user: of other strategies, or with other values than the experiment's."""
    group = _runs(results, target)
    runs = list(group.records.values()) if group else []
    listed = {run.identity.strategy.name for run in runs if run.label in target.variants}
    own = [run for run in runs if run.origin == WORKSPACE]
    return dict(target.variants) | {
        run.label: run.label
        for run in own
        if run.label not in target.variants and (user_changes(run.identity) or run.identity.strategy.name not in listed)
    }


def _runs(results: Results, target: Target) -> Runs | None:
    """The runs of the target's experiment, without those that its claims read beside."""
    group = results.find(target.experiment, SIMULATED)
    return group and group.where(experiment=target.experiment)


def _trained(results: Results, target: Target, name: str) -> Trained | None:
    """None without runs, or without those that say how long an epoch takes."""
    group = _runs(results, target)
    if group is None or not (runs := group.seeds(name)) or not (times := _epoch_times(results, target, name, runs)):
        return None
    epochs = {seed: epochs_to(run, target.target) for seed, run in runs.items()}
    return Trained(runs, epochs, *times)


def _own_numbers(variant: Trained) -> dict[str, Interval]:
    return {
        "epochs": _product(variant.epochs, 1.0, {}),
        "epoch_s": _product({}, variant.epoch_s, variant.draws_s),
        "seconds": _product(variant.epochs, variant.epoch_s, variant.draws_s),
    }


def _ratios(base: Trained, variant: Trained) -> dict[str, Interval]:
    """The baseline's over the variant's."""
    fewer = compare_epochs(variant.epochs, base.epochs)
    draws = {draw: base.draws_s[draw] / seconds for draw, seconds in variant.draws_s.items() if draw in base.draws_s}
    faster = base.epoch_s / variant.epoch_s
    numbers = {"faster": _product({}, faster, draws)}
    if fewer:
        numbers["fewer"] = _product(fewer, 1.0, {})
        numbers["sooner"] = _product(fewer, faster, draws)
    return numbers


def _product(of_seeds: Mapping[int, float], configured: float, drawn: Mapping[int, float]) -> Interval:
    """The median seed's number (of no seeds: 1) times the configured one; the range: over the draws, at which seeds
    take turns, or without draws over the seeds."""
    numbers = list(of_seeds.values()) or [1.0]
    if drawn:
        sample = Sample([numbers[draw % len(numbers)] * each for draw, each in drawn.items()], drawn=True)
    else:
        sample = Sample([number * configured for number in numbers], drawn=False)
    return Interval.of(median(numbers) * configured, sample)


def check_reached(target: Target, base: Trained) -> None:
    """InputError for a target that the baseline reaches in no run."""
    from repro.training.evaluation.metrics import lower_is_better

    if any(map(math.isfinite, base.epochs.values())):
        return
    metric = next(iter(base.runs.values())).identity.metric
    curves = [point.get(metric) for run in base.runs.values() for point in run.training.curve]
    best = (min if lower_is_better(metric) else max)((score for score in curves if score is not None), default=math.nan)
    raise InputError(
        f"{target.experiment}: no run of {target.over} reaches the target {target.target:g}; the best {metric} of its "
        f"{len(base.runs)} is {best:g}: choose a target that the baseline reaches"
    )


def _epoch_times(
    results: Results, target: Target, name: str, runs: Mapping[int, Found]
) -> tuple[float, dict[int, float], float] | None:
    """The last three entries of `Trained`; None without runs."""
    experiment, variant, machines = target.times.get(name) or EpochTime(target.experiment, name)
    first = next(iter(runs.values()))
    by = (target.examples or first.identity.batch * (first.training.iterations_per_epoch or math.nan)) / machines
    simulated, sweeps = results.find(experiment, SIMULATED), results.drawn(experiment)
    if simulated is None:
        return None
    drawn = sweeps if sweeps and sweeps.configured.seeds(variant) else simulated
    configured = simulated.seeds(variant) or (sweeps.configured.seeds(variant) if sweeps else {})
    if not configured:
        return None
    emulated = results.find(experiment, EMULATED)
    epoch_s, emulated_s = by * _example_s(configured), by * _example_s(emulated.seeds(variant) if emulated else {})
    if drawn is simulated and reason_without_draws(simulated):
        return epoch_s, {}, emulated_s
    at_draws = results.evaluator.runs_at_draws(drawn, results.evaluator.errors_for(simulated))
    return epoch_s, {draw: by * _example_s({draw: run}) for draw, run in at_draws.seeds(variant).items()}, emulated_s


def _example_s(runs: Mapping[int, Found]) -> float:
    """Seconds of an example: the mean of runs; NaN without any."""
    return fmean(run.training.step.mean_s / run.identity.batch for run in runs.values()) if runs else math.nan


# --- as text, and as curves


def target_tables(
    list_targets: Callable[[], Sequence[Target]], hours: bool = False
) -> dict[str, Callable[[Results], pd.DataFrame]]:
    """The entries `time_to_target` and `curves_to_target` of a page's `TABLES`."""
    return {
        TABLE: lambda results: pd.DataFrame(describe_targets(tabulate_targets(results, list_targets()))),
        "curves_to_target": lambda results: list_curves(results, list_targets(), hours),
    }


def describe_targets(table: pd.DataFrame) -> list[dict[str, str]]:
    """The rows of `tabulate_targets` but the baselines', as text.

    The last three columns are the baseline's over the strategy's: the median of the seeds' own ratios, which is not
    the ratio of the medians beside it.
    """
    shown = []
    for _, group in table.groupby(["workload", "target"], sort=False) if len(table) else ():
        base = group[group["baseline"]].iloc[0]
        for _, row in group[~group["baseline"]].iterrows():
            shown.append(
                {
                    "workload": row["workload"],
                    "target": format_number(row["target"]),
                    "strategy; baseline": f"{row['variant']}; {base['variant']}",
                    REACHED: f"{row['reached']} of {row['seeds']}; {base['reached']} of {base['seeds']}",
                    EPOCHS_TO: f"{_epochs(row)}; {_epochs(base)}",
                    "times fewer epochs": _ratio(row, "fewer"),
                    FASTER: _ratio(row, "faster")
                    + ("" if math.isnan(row["emulated"]) else f"; {EMULATED} {_ratio(row, EMULATED)}"),
                    SOONER: _ratio(row, "sooner"),
                }
            )
    return shown


def _epochs(row: pd.Series) -> str:
    low, middle, high = (row[f"epochs{end}"] for end in ("_low", "", "_high"))
    if math.isinf(low):
        return NOT_REACHED
    ends = [NOT_REACHED if math.isinf(each) else format_number(float(each), 2) for each in (low, middle, high)]
    return ends[1] + (f" ({ends[0]} to {ends[2]})" if low < high else "")


def _ratio(row: pd.Series, column: str) -> str:
    low, middle, high = (row.get(f"{column}{end}", math.nan) for end in ("_low", "", "_high"))
    if math.isnan(middle):
        return DASH
    ends = f" ({format_number(low)} to {format_number(high)})" if low < high else ""
    return f"{format_number(middle)}{TIMES}{ends}"


def list_curves(results: Results, targets: Sequence[Target], hours: bool = False) -> pd.DataFrame:
    """A row a variant, seed, evaluation and panel (`EPOCHS`, `TIME`): workload, variant, seed, kind, panel, along
    (epochs; seconds, or hours), score. The time of an epoch is that of all inputs as configured."""
    rows = []
    for target in targets:
        for name, called in _variants(results, target).items():
            if (variant := _trained(results, target, name)) is None:
                continue
            epoch = variant.epoch_s / (3600 if hours else 1)
            for seed, run in variant.runs.items():
                about = {"workload": target.workload, "variant": called, "seed": seed, "kind": SIMULATED}
                curve = [(point["epoch"] or 0.0, point.get(run.identity.metric)) for point in run.training.curve]
                rows += [
                    about | {"panel": panel, "along": epochs * unit, "score": score}
                    for epochs, score in curve
                    if score is not None
                    for panel, unit in ((EPOCHS, 1.0), (TIME, epoch))
                ]
    return pd.DataFrame(rows)
