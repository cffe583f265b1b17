"""The paper's own numbers (reference/gtopk.csv) as `Steps`: of Tables VI and VII, and of its time model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro.reporting.stats import ALPHA
from repro.reports.gtopk.forms import FORMS, selected
from repro.reports.gtopk.results import DENSITY, MOST, PARAMETERS, WORLDS
from repro.reports.gtopk.steps import ALGORITHMS, MODELS, Steps
from repro.reports.reference import read

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Published:
    """alpha and beta in seconds; Table VI's batch, iteration seconds; Table VII's images a second."""

    alpha_s: float
    beta_s: float
    batch: Mapping[str, float]
    iteration_s: Mapping[str, float]
    throughput: Mapping[tuple[str, str], float]
    ratios: Mapping[tuple[str, str], float]  # (model, over) -> gTop-k's speed-up as printed

    def closed_form_s(self, algorithm: str, workers: int, elements: int) -> float:
        """Table I with the published alpha and beta; nothing is sent by one worker alone."""
        size = (workers, 4 * elements, selected(elements, DENSITY))
        return FORMS[algorithm](*size, self.alpha_s, self.beta_s) if workers > 1 else 0.0

    def implied_mbit(self, model: str, algorithm: str) -> float:
        """The bandwidth (Mbit/s) with which Table I takes all of Table VII's iteration that Table VI does not."""
        size = (MOST, 4 * PARAMETERS[model], selected(PARAMETERS[model], DENSITY))
        left = of_tables(self).seconds[model, algorithm, MOST] - self.iteration_s[model]
        left -= FORMS[algorithm](*size, self.alpha_s, 0.0)
        return 8e-6 * FORMS[algorithm](*size, 0.0, 1.0) / left if left > 0 else math.nan


def published(table: pd.DataFrame | None = None) -> Published:
    """Read from the reference table; a missing row is a mistake in it."""
    table = read("gtopk") if table is None else table
    by_place = table.set_index(["place", "row", "setting", "quantity"])["value"]

    def value(*place: str) -> float:
        return float(by_place.loc[place])

    return Published(
        1e-3 * value("Figure 8", "cluster", "all", ALPHA),
        1e-3 * value("Figure 8", "cluster", "all", "β"),
        {model: value("Table VI", model, "one GPU", "batch size") for model in MODELS},
        {model: value("Table VI", model, "one GPU", "iteration time") for model in MODELS},
        {(m, a): value("Table VII", m, a, "throughput, P = 32") for m in MODELS for a in ALGORITHMS},
        {
            (model, over): value("Table VII", model, "gTop-k", f"speed-up over {over}, {sign}")
            for model in MODELS
            for over, sign in (("Dense", "g/d"), ("Top-k", "g/t"))
        },
    )


def of_tables(paper: Published) -> Steps:
    """Table VII with 32 workers and Table VI with one."""
    seconds = {(m, a, MOST): MOST * paper.batch[m] / paper.throughput[m, a] for m in MODELS for a in ALGORITHMS}
    seconds |= {(m, a, 1): paper.iteration_s[m] for m in MODELS for a in ALGORITHMS}
    return Steps(seconds, paper.batch, paper.iteration_s)


def of_model(paper: Published) -> Steps:
    """Table VI's iteration and Table I's communication one after the other; compression costs nothing in it."""
    seconds = {
        (m, a, P): paper.iteration_s[m] + paper.closed_form_s(a, P, PARAMETERS[m])
        for m in MODELS
        for a in ALGORITHMS
        for P in WORLDS
    }
    return Steps(seconds, paper.batch, paper.iteration_s)
