"""How ours is computed for claims about several models or workers at once (gTop-k, Figures 10 and 11; Table VII).

Each function is written over `Steps`, so that it can be asked of the paper's own table and of its time model too, and
registered over the group of simulated or emulated runs.
"""

from __future__ import annotations

from collections.abc import Callable

from repro.common.known import known
from repro.reporting.evaluate import Outcome
from repro.reporting.stats import spread
from repro.reports.compute import by_seed, function
from repro.reports.gtopk.steps import MODELS, Steps, of_runs
from repro.reports.probes import AnyGroup

TAKES: dict[str, Callable[[list[float]], float]] = {
    "least": min,
    "most": max,
    "average": lambda values: sum(values) / len(values),
    "median": lambda values: spread(values).median,
}


def of_models(core: Callable[..., float | None]) -> Callable[..., float | None]:
    """Register core(steps, model, **arguments), taken over the four models, for the claims file; returned as well."""

    def over_models(steps: Steps, take: str = "median", **arguments) -> float | None:
        found = [core(steps, model, **arguments) for model in MODELS]
        return None if any(value is None for value in found) else TAKES[take]([known(value) for value in found])

    def compute(group: AnyGroup, take: str = "median", **arguments) -> Outcome:
        def each(runs) -> Steps:
            return of_runs([run for run in runs if not run["breakdown"]])

        steps = each(group.used())
        of_model = {model: core(steps, model, **arguments) for model in MODELS}
        if lacking := [model for model, value in of_model.items() if value is None]:
            return Outcome(reason=f"not enough runs of {', '.join(lacking)}")
        return by_seed(group, lambda runs: over_models(each(runs), take, **arguments), "no seed has all models")

    compute.__name__ = core.__name__  # and not its signature: the model is taken over
    function(compute)
    return over_models


@of_models
def scaling_speedup(steps: Steps, model: str, over: str, of: str = "gTop-k", workers: int = 32) -> float | None:
    """Throughput of `of` over that of `over`."""
    return steps.speedup(model, of, over, workers)


def _kept(steps: Steps, model: str, of: str, workers: int, less: int) -> float | None:
    many, few = (steps.efficiency(model, of, P) for P in (workers, less))
    return many / few if many and few else None


@of_models
def efficiency_kept(steps: Steps, model: str, of: str, workers: int = 32, less: int = 4) -> float | None:
    """Efficiency with `workers` / with `less` workers; below 1: it falls."""
    return _kept(steps, model, of, workers, less)


@of_models
def more_stable(steps: Steps, model: str, of: str, over: str, workers: int = 32, less: int = 4) -> float | None:
    """What `of` keeps of its efficiency / what `over` keeps of its own; above 1: `of` is the more stable one."""
    one, base = (_kept(steps, model, which, workers, less) for which in (of, over))
    return one / base if one and base else None
