"""The paper's own numbers (reference/gtopk.csv) as `scaling.Steps`: of Tables VI and VII, and of its time model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro.reports.gtopk.experiments import DENSITY, PARAMETERS, WORLDS
from repro.reports.scaling import ALGORITHMS, MODELS, Steps
from repro.reports.sparse_forms import BY_VARIANT, selected
from repro.reporting.stats import ALPHA

if TYPE_CHECKING:
    import pandas as pd

MOST = 32  # workers of Table VII


@dataclass(frozen=True)
class Published:
    """alpha and beta in seconds; Table VI's batch, iteration seconds; Table VII's images a second and ratios."""

    alpha_s: float
    beta_s: float
    batch: Mapping[str, int]
    iteration_s: Mapping[str, float]
    single: Mapping[str, float]
    throughput: Mapping[tuple[str, str], float]
    ratios: Mapping[tuple[str, str], float]  # (model, over) -> as printed

    def closed_form_s(self, algorithm: str, workers: int, elements: int, density: float = DENSITY) -> float:
        """Table I with the published alpha and beta; nothing is sent by one worker alone."""
        if workers == 1:
            return 0.0
        k = selected(elements, density)
        return BY_VARIANT[algorithm](workers, 4 * elements, k, self.alpha_s, self.beta_s)


def published(table: pd.DataFrame) -> Published:
    """Read from the reference table; a missing row is a mistake in it."""

    def value(place: str, row: str, variant: str, quantity: str) -> float:
        found = table[(table["place"] == place) & (table["row"] == row) & (table["setting"] == variant)
                      & (table["quantity"] == quantity)]  # fmt: skip
        return float(found["value"].item())

    def single(quantity: str) -> dict[str, float]:
        return {model: value("Table VI", model, "one GPU", quantity) for model in MODELS}

    return Published(
        1e-3 * value("Figure 8", "cluster", "all", ALPHA),
        1e-3 * value("Figure 8", "cluster", "all", "β"),
        {model: int(batch) for model, batch in single("batch size").items()},
        single("iteration time"),
        single("throughput"),
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


def of_model(paper: Published, parameters: Mapping[str, int] = PARAMETERS) -> Steps:
    """Table VI's iteration and Table I's communication one after the other; compression costs nothing in it."""
    places = [(m, a, P) for m in MODELS for a in ALGORITHMS for P in WORLDS]
    communication = {(m, a, P): paper.closed_form_s(a, P, parameters[m]) for m, a, P in places}
    return Steps(
        {where: paper.iteration_s[where[0]] + cost for where, cost in communication.items()},
        paper.batch,
        paper.iteration_s,
        {w: {"computation": paper.iteration_s[w[0]], "communication": cost} for w, cost in communication.items()},
    )
