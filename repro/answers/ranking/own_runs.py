"""A user's own runs: what they say of a step, of goodput, and of what frameworks and clusters add."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repro.algorithms.timing.setting import Setting
from repro.algorithms.timing.step import Step
from repro.answers.ranking import draws, forms
from repro.answers.ranking.candidates import Candidate
from repro.answers.ranking.links import GOODPUT, INSIDE
from repro.answers.ranking.question import COMPUTATION
from repro.core.errors import InputError

FITTED = 3  # runs from which on their inputs are fitted
NOISE, ADDED = 0.02, 0.3  # standard deviations of logarithms: of a repeated run, and of what is added


@dataclass(frozen=True)
class Run:
    """A user's own run: seconds of an iteration. step_known: whether its computation is given, not drawn."""

    seconds: float
    candidate: Candidate
    workers: int
    gpus_per_node: int = 1
    step_known: bool = True

    @property
    def uses_network(self) -> bool:
        """Whether its workers were in several machines."""
        return self.workers > self.gpus_per_node

    def log_ratio(self, drawn: Setting) -> float:
        """The logarithm of the run's seconds over the closed form's with a draw's inputs; InputError if it has none."""
        return math.log(self.seconds / self.step_in(drawn).seconds)

    def step_in(self, drawn: Setting) -> Step:
        """The closed form's step in the run's place, with a draw's inputs."""
        where = replace(drawn, workers=self.workers, gpus_per_node=self.gpus_per_node)
        step = forms.closed_form_step(self.candidate, where)
        if step is None:
            raise InputError(f"measured: {self.candidate.label} is impossible with {self.workers} workers")
        return step


def check_runs(runs: Sequence[Run], setting: Setting, line_bits: float) -> None:
    """InputError for an iteration that is shorter than its computation, which is given, or than the least time of its
    gradients on a line (bits/s)."""
    for run in runs:
        machines = run.workers / run.gpus_per_node
        network_s = 2 * (1 - 1 / machines) * 8 * setting.nbytes / line_bits
        for what, least in (("step", setting.computation_s * run.step_known), ("gradients on this line", network_s)):
            if run.seconds < least:
                raise InputError(
                    f"measured {1e3 * run.seconds:.3g}ms@{run.workers}: must be at least the {1e3 * least:.3g} ms of "
                    f"its {what} (step-ms, gpu, batch, bandwidth)"
                )


def log_added(runs: Sequence[Run], step: Step, where: Setting) -> float:
    """The logarithm of what a step takes over its closed form, by the user's runs in such a place.

    Runs that take longer than predicted lengthen the whole step, as frameworks and clusters do; those that are shorter
    shorten what the step takes besides its computation, in proportion, if that is known.
    """
    ratio = statistics.fmean(run.log_ratio(where) for run in runs)
    if ratio >= 0 or not all(run.step_known for run in runs):
        return ratio
    least = where.computation_s
    besides = [(max(run.seconds - least, 0.0), run.step_in(where).seconds - least) for run in runs]
    share = statistics.fmean(shown / form if form > 0 else 1.0 for shown, form in besides)
    return math.log((least + min(share, 1.0) * max(step.seconds - least, 0.0)) / step.seconds)


def added_by(runs: Sequence[Run], setting: Setting) -> list[Run]:
    """The runs that show what is added to a step of a setting: of several workers over the network, or none over it, as
    there."""
    alike = [run for run in runs if run.uses_network == setting.uses_network]
    return alike if setting.workers > 1 else []


def fit_setting(setting: Setting, known: Collection[str], runs: Sequence[Run]) -> tuple[Setting, list[str]]:
    """(the setting, its known inputs) with the step and what links deliver, as far as the runs show them. Three show
    all of that; fewer show the step if one of them is in one machine, and else change only its middle.

    Each unknown input is at the quantile of a standard normal value, which least squares find: the runs' logarithms of
    measured over predicted seconds should be alike (within NOISE), their mean small (within ADDED), the values too.
    Nothing is added to a run of one worker.
    """
    unknown = draws.assumed_inputs(known, setting)
    fitted = {name: unknown[name] for name in (COMPUTATION, GOODPUT, INSIDE) if name in unknown}
    few = len(runs) < FITTED
    if not fitted or not runs or (few and COMPUTATION in known):
        return setting, [*known]
    from scipy.optimize import least_squares
    from scipy.stats import norm

    several = np.array([run.workers > 1 for run in runs])

    def at(values: np.ndarray) -> Setting:
        quantiles = (float(quantile) for quantile in norm.cdf(values))
        return draws.setting_at(setting, {name: (each, next(quantiles)) for name, each in fitted.items()})

    def residuals(values: np.ndarray) -> np.ndarray:
        where = at(values)
        ratios = np.array([run.log_ratio(where) for run in runs])
        added = ratios[several].mean() if several.any() else 0.0
        return np.concatenate([(ratios - added * several) / NOISE, [added / ADDED], values])

    best = at(least_squares(residuals, np.zeros(len(fitted)), diff_step=1e-3).x)
    if few:
        fitted = {COMPUTATION: fitted[COMPUTATION]} if not all(run.uses_network for run in runs) else {}
    links = {name: link for name, link in setting.links.items() if name not in fitted}
    return replace(best, links=links), [*known, *fitted]
