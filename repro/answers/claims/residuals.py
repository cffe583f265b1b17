"""The error of simulated times, drawn for each draw: observed over simulated times of the validation.

Where a paper has emulated runs of the same strategies at a nearer size, it is emulated over simulated times of those.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np

from repro.answers.tables.runs import Runs
from repro.answers.tables.selection import is_busy, is_quick
from repro.records.record import Found
from repro.records.variants import newest, of_one_machine, same_work

# Experiments of the validation that count neither for its goal nor for the error of simulated numbers: ranks share
# cores, which the simulation does not model; or an experiment repeats another to find a cause.
APART = ("contention", "slowed")
VALIDATION = "validation"  # the program
SEED = 20261126  # fixed before the first draw


def validation_runs(runs: Iterable[Found]) -> list[Found]:
    """The validation's runs that say how far simulated times are off: of each place, seed and machine the newest, none
    on a busy machine, and none of scale quick beside others. Those of APART are among them; controls are not."""
    probes = [run for run in runs if run.identity.program == VALIDATION and not is_busy(run)]
    latest = newest(probes, of_one_machine)
    return [run for run in latest if not is_quick(run)] or latest


def ratio_errors(steps: Iterable[tuple[Hashable, float, float]]) -> list[float]:
    """The error of each ratio of two simulated steps of one group. steps: (group, observed, simulated), in one unit."""
    factors: dict[Hashable, list[float]] = {}
    for group, observed, simulated in steps:
        factors.setdefault(group, []).append(observed / simulated)
    return [max(a / b, b / a) - 1 for of_group in factors.values() for a, b in combinations(of_group, 2)]


@dataclass(frozen=True)
class Residual:
    """Observed over simulated step time of a strategy."""

    strategy: str
    factor: float
    options: Mapping[str, Any] = field(default_factory=dict)
    workers: int = 1


@dataclass(frozen=True)
class Twins:
    """Emulated over simulated steps of an experiment's strategies; bytes: of the gradient."""

    bytes: float
    residuals: list[Residual] = field(default_factory=list)


@dataclass(frozen=True)
class Residuals:
    """The residuals of each validation run of one size, or of each of a paper's experiments that was emulated.

    A draw takes all strategies from one run: an error that they share cancels in a ratio. part: an error is a random
    part of the residual, as in `drawn.towards`.
    """

    runs: Sequence[Sequence[Residual]]
    source: str
    part: bool = False

    def of_draw(self, number: int) -> _OfDraw:
        """The residuals for a draw: those of one run, drawn at random."""
        rng = np.random.default_rng([SEED, number + 1])
        of_run = self.runs[int(rng.integers(len(self.runs)))]
        others = of_run[int(rng.integers(len(of_run)))].factor
        return _OfDraw(of_run, others, float(rng.random()) if self.part else 1.0)


@dataclass(frozen=True)
class _OfDraw:
    residuals: Sequence[Residual]
    of_others: float
    part: float

    def factor_for(self, run: Found) -> float:
        """The factor for a run's times."""
        strategy = run.identity.strategy
        return self.factor_of(strategy.name, strategy.options, run.identity.workers)

    def factor_of(self, strategy: str, options: Mapping[str, Any] = {}, workers: int = 1) -> float:
        """The factor for a strategy's times: its residual with the most similar options and number of workers."""

        def like(residual: Residual) -> tuple[int, float]:
            same = sum(options.get(name) == value for name, value in residual.options.items())
            return same, -abs(math.log(residual.workers / workers))

        same = [each for each in self.residuals if each.strategy == strategy]
        return (max(same, key=like).factor if same else self.of_others) ** self.part


def residuals_for(
    steps: Sequence[Mapping[str, Any]], family: Collection[str], nbytes: float, twins: Mapping[str, Twins] | None = None
) -> Residuals | None:
    """The residuals for runs of the strategies `family` with a gradient of `nbytes`; None without `steps`.

    They are of the validation's runs of these strategies (of all, if none of these was validated) at the nearest size
    on a log scale. Emulated twins of the paper's experiments with one of these strategies count instead where one of
    them is nearer in size. steps: of the validation's runs (run, strategy, bytes, observed_s, simulated_s).
    """

    def away(size: float) -> float:
        return abs(math.log(size / max(nbytes, 1.0)))

    if not steps:
        return None
    of_family = [step for step in steps if step["strategy"] in family]
    nearest = min({step["bytes"] for step in of_family or steps}, key=lambda size: (away(size), size))
    like = [twin for twin in (twins or {}).values() if {*family} & {each.strategy for each in twin.residuals}]
    if like and min(away(each.bytes) for each in like) < away(nearest):
        count = sum(len(each.residuals) for each in like)
        return Residuals(
            [each.residuals for each in like], f"{count} emulated runs of {len(like)} experiments", part=True
        )
    runs = {step["run"] for step in of_family or steps if step["bytes"] == nearest}
    factors: dict[str, dict[str, float]] = {}
    for step in steps:
        if step["run"] in runs and step["bytes"] == nearest:
            factors.setdefault(step["run"], {})[step["strategy"]] = step["observed_s"] / step["simulated_s"]
    of_runs = [[Residual(*each) for each in factors[run].items()] for run in sorted(factors)]
    count = sum(map(len, of_runs))
    whose = "" if of_family else ", of other strategies"
    beyond = ", extrapolated" if nbytes > 2 * nearest else ""
    return Residuals(of_runs, f"{count} step times of {len(of_runs)} runs with {nearest / 1e6:.3g} MB{whose}{beyond}")


def twins_of_pairs(pairs: Iterable[tuple[Runs | None, Runs | None]]) -> dict[str, Twins]:
    """`experiment model` -> residuals from pairs of emulated runs and their simulations; a run in several pairs counts
    once."""
    factors: dict[tuple[Any, ...], tuple[Found, float]] = {}
    for emulated, simulated in pairs:
        if emulated is not None and simulated is not None:
            expected = _medians(simulated)
            both = {name: each for name, each in _medians(emulated).items() if name in expected}
            factors |= {name: (run, median(s) / median(expected[name][1])) for name, (run, s) in both.items()}
    experiments: dict[str, Twins] = {}
    for run, factor in factors.values():
        identity, nbytes = run.identity, 4.0 * (run.parameters or 0)
        of_experiment = experiments.setdefault(f"{identity.experiment} {run.model_name}", Twins(nbytes))
        strategy = identity.strategy
        of_experiment.residuals.append(Residual(strategy.name, factor, strategy.options, identity.workers))
    return {name: each for name, each in experiments.items() if each.bytes}


def _medians(runs: Runs) -> dict[tuple[Any, ...], tuple[Found, list[float]]]:
    """The median steps of runs, of each work; with it its first run."""
    timed = [run for run in runs.records.values() if run.identity.trains and run.training.step.median_s]
    steps: dict[tuple[Any, ...], tuple[Found, list[float]]] = {}
    for run, work in zip(timed, same_work([run.identity for run in timed]), strict=True):
        steps.setdefault(work, (run, []))[1].append(run.training.step.median_s or 0.0)
    return steps
