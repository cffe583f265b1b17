"""A user's own runs: what they say of a step, of goodput, and of what frameworks and clusters add."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import draws, forms
from repro.answers.ranking.candidates import Candidate
from repro.answers.ranking.links import GOODPUT, INSIDE
from repro.answers.ranking.question import COMPUTATION
from repro.core.errors import InputError

FITTED = 3  # runs from which on their inputs are fitted
NOISE, ADDED = 0.02, 0.3  # standard deviations of logarithms: of a repeated run, and of what is added


@dataclass(frozen=True)
class Run:
    """A user's own run: seconds of an iteration."""

    seconds: float
    candidate: Candidate
    workers: int
    gpus_per_node: int = 1

    @property
    def uses_network(self) -> bool:
        """Whether its workers were in several machines."""
        return self.workers > self.gpus_per_node

    def log_ratio(self, drawn: Setting) -> float:
        """The logarithm of the run's seconds over the closed form's with a draw's inputs; InputError if it has none."""
        where = replace(drawn, workers=self.workers, gpus_per_node=self.gpus_per_node)
        step = forms.closed_form_step(self.candidate, where)
        if step is None:
            raise InputError(f"measured: {self.candidate.label} is impossible with {self.workers} workers")
        return math.log(self.seconds / step.seconds)


def added_by(runs: Sequence[Run], setting: Setting) -> list[Run]:
    """The runs that show what is added to a step of a setting: of several workers over the network, or none over it, as
    there."""
    alike = [run for run in runs if run.uses_network == setting.uses_network]
    return alike if setting.workers > 1 else []


def fit_setting(setting: Setting, known: Collection[str], runs: Sequence[Run]) -> tuple[Setting, list[str]]:
    """(the setting, its known inputs) with the step and what links deliver, as far as the runs show them: three show
    all, fewer the step if one of them is in one machine.

    Each unknown input is at the quantile of a standard normal value, which least squares find: the runs' logarithms of
    measured over predicted seconds should be alike (within NOISE), their mean small (within ADDED), the values too.
    Nothing is added to a run of one worker.
    """
    shown = (COMPUTATION, GOODPUT, INSIDE) if len(runs) >= FITTED else (COMPUTATION,)
    runs = runs if len(runs) >= FITTED else [run for run in runs if not run.uses_network]
    unknown = draws.assumed_inputs(known, setting)
    fitted = {name: unknown[name] for name in shown if name in unknown}
    if not fitted or not runs:
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
    links = {name: link for name, link in setting.links.items() if name not in fitted}
    return replace(best, links=links), [*known, *fitted]
