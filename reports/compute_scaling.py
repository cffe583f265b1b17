"""How ours is computed for claims about throughput, speed-up and efficiency (gTop-k, Figures 10, 11; Table VII).

Each function is written over `scaling.Steps`, so that the page can ask it of the paper's own table and of the time
model too (`ON_STEPS`), and registered over the group of simulated or measured runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from repro.common.known import known
from repro.reporting.stats import number, spread
from repro.reports.compute import Outcome, function
from repro.reports.compute_timing import by_seed
from repro.reports.probes import ProbeGroup
from repro.reports.scaling import MODELS, Steps, of_runs

ON_STEPS: dict[str, Callable[..., float | None]] = {}
TAKES: dict[str, Callable[[list[float]], float | None]] = {
    "least": min,
    "most": max,
    "average": lambda values: sum(values) / len(values),
    "median": lambda values: spread(values).median,
}


def of_steps(core: Callable[..., float | None]) -> Callable[..., float | None]:
    """Register core(steps, **arguments) -> number or None under its name for the claims files."""
    ON_STEPS[core.__name__] = core

    @wraps(core)
    def compute(group: ProbeGroup, **arguments) -> Outcome:
        every = of_runs([run for run in group.summaries if not run["breakdown"]])
        found = by_seed(group, lambda runs: core(of_runs(runs), **arguments), "", "")
        if not found.values:
            return Outcome(reason=_missing(every, arguments))
        return Outcome(found.values, note=_by_model(core, every, arguments))

    function(compute)
    return core


def _missing(steps: Steps, arguments: dict) -> str:
    workers = arguments.get("workers", 32)
    wanted = [arguments["model"]] if "model" in arguments else list(MODELS)
    there = {(model, algorithm) for model, algorithm, P in steps.seconds if workers == P}
    names = [arguments.get("of", "gTop-k"), *([arguments["over"]] if "over" in arguments else [])]
    lacking = [f"{model}, {name}" for model in wanted for name in names if (model, name) not in there]
    if not lacking:
        return "nothing to compute it from"
    return f"no results with {workers} workers for {'; '.join(lacking[:4])}"


def _by_model(core: Callable[..., float | None], steps: Steps, arguments: dict) -> str:
    """What a number over several models is made of."""
    if "take" not in arguments:
        return ""
    rest = {name: value for name, value in arguments.items() if name != "take"}
    each = {model: core(steps, model=model, **rest) for model in MODELS}
    return ", ".join(f"{model} {number(value)}" for model, value in each.items() if value is not None)


def _over_models(values: list[float | None], take: str) -> float | None:
    return None if any(value is None for value in values) else TAKES[take]([known(value) for value in values])


@of_steps
def scaling_speedup(
    steps: Steps, over: str, of: str = "gTop-k", workers: int = 32, model: str | None = None, take: str = "median"
) -> float | None:
    """Throughput of `of` over that of `over`: of one model, or the least, most, average or median of all four."""
    return _over_models([steps.speedup(name, of, over, workers) for name in ([model] if model else MODELS)], take)


@of_steps
def throughput(steps: Steps, model: str, of: str, workers: int = 32) -> float | None:
    """Examples a second of all workers."""
    return steps.throughput(model, of, workers)


@of_steps
def efficiency(steps: Steps, model: str, of: str = "gTop-k", workers: int = 32) -> float | None:
    """Scaling efficiency, equation (4)."""
    return steps.efficiency(model, of, workers)


@of_steps
def wins(steps: Steps, over: str, of: str = "gTop-k", workers: int = 32) -> float | None:
    """Share of the four models with which `of` is the faster one."""
    found = [steps.speedup(name, of, over, workers) for name in MODELS]
    return None if any(value is None for value in found) else sum(known(value) > 1 for value in found) / len(found)


@of_steps
def efficiency_kept(
    steps: Steps, of: str = "gTop-k", workers: int = 32, less: int = 4, model: str | None = None, take: str = "median"
) -> float | None:
    """Efficiency with `workers` / with `less` workers; below 1: it falls."""
    found = []
    for name in [model] if model else MODELS:
        many, few = (steps.efficiency(name, of, P) for P in (workers, less))
        found.append(many / few if many and few else None)
    return _over_models(found, take)


@of_steps
def more_stable(
    steps: Steps, over: str, of: str = "gTop-k", workers: int = 32, less: int = 4, model: str | None = None,
    take: str = "least",
) -> float | None:  # fmt: skip
    """What `of` keeps of its efficiency / what `over` keeps of its own; above 1: `of` is the more stable one."""
    found = []
    for name in [model] if model else MODELS:
        one, base = (efficiency_kept(steps, which, workers, less, name) for which in (of, over))
        found.append(one / base if one and base else None)
    return _over_models(found, take)


@of_steps
def part_over_computation(
    steps: Steps, model: str, part: str | list[str], of: str = "gTop-k", workers: int = 32
) -> float | None:
    """Seconds of a part of an iteration (compression, communication, or their sum) / those of computation."""
    known = steps.parts.get((model, of, workers), {})
    wanted = [part] if isinstance(part, str) else part
    if not known.get("computation") or any(name not in known for name in wanted):
        return None
    return sum(known[name] for name in wanted) / known["computation"]
