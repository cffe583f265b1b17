"""Seconds of an iteration by model, algorithm and workers, from whatever source: runs, a model of the time, the paper.

One shape for all sources, so that a claim about throughput, efficiency or speed-up is computed in one way from each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from repro.reporting.stats import spread
from repro.reports import factors
from repro.reports.compute import COMPUTATION
from repro.reports.loading import Summary

ALGORITHMS = ("Dense", "Top-k", "gTop-k")
MODELS = ("VGG-16", "ResNet-20", "AlexNet", "ResNet-50")
PARTS = ("computation", "compression", "communication")
Place = tuple[str, str, int]  # model, algorithm, workers


@dataclass(frozen=True)
class Steps:
    """Seconds of an iteration, and of its parts where they are known; batches are a worker's."""

    seconds: Mapping[Place, float]
    batch: Mapping[str, float]
    computation: Mapping[str, float]  # seconds of forward and backward pass, by model
    parts: Mapping[Place, Mapping[str, float]] = field(default_factory=dict)

    def throughput(self, model: str, algorithm: str, workers: int) -> float | None:
        """Examples a second of all workers."""
        found = self.seconds.get((model, algorithm, workers))
        return workers * self.batch[model] / found if found else None

    def efficiency(self, model: str, algorithm: str, workers: int) -> float | None:
        """Equation (4): computation / iteration."""
        found = self.seconds.get((model, algorithm, workers))
        return self.computation[model] / found if found and model in self.computation else None

    def speedup(self, model: str, algorithm: str, over: str, workers: int) -> float | None:
        """Throughput of one algorithm over that of another, same workers."""
        one, base = (self.seconds.get((model, name, workers)) for name in (algorithm, over))
        return base / one if one and base else None


def place(run: Summary) -> Place | None:
    """(model, algorithm, workers) by the run's factors; None of a run of other ones."""
    found = factors.of(run)
    if not {"model", "method", "workers"} <= found.keys() or found["method"] not in ALGORITHMS:
        return None
    return str(found["model"]), str(found["method"]), int(found["workers"])


def of_runs(runs: Sequence[Summary]) -> Steps:
    """Medians over the runs of each place."""
    by_place: dict[Place, list[Summary]] = {}
    for run in runs:
        if (where := place(run)) is not None:
            by_place.setdefault(where, []).append(run)
    models: dict[str, list[Summary]] = {}
    for (model, *_), some in by_place.items():
        models.setdefault(model, []).extend(some)
    return Steps(
        {where: _median(c["step"]["mean_s"] for c in some) for where, some in by_place.items()},
        {model: _median(c["batch"] / c["workers"] for c in some) for model, some in models.items()},
        {model: _median(_passes(c) for c in some) for model, some in models.items()},
        {
            where: {name: _median(parts(c)[name] for c in some) for name in PARTS}
            for where, some in by_place.items()
        },
    )  # fmt: skip


def parts(run: Summary) -> dict[str, float]:
    """Figure 11's three parts of an iteration's main line; waiting for others belongs to the communication."""
    phases = run["phases"]
    return {
        "computation": sum(phases[name] for name in COMPUTATION),
        "compression": phases["compress"],
        "communication": phases["communicate"] + phases["wait"],
    }


def _passes(run: Summary) -> float:
    return run["phases"]["forward"] + run["phases"]["backward"]


def _median(values: Iterable[float]) -> float:
    return spread(values).median
