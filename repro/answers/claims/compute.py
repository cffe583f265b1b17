"""How ours is computed for a claim: small functions from a group of summaries to one number a seed.

A claims file names one of these functions and its arguments (`variant`: a variant's label); nothing of it is
evaluated as code. Times are seconds an iteration unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from inspect import signature
from statistics import median

from repro.answers.claims.claims import Value
from repro.answers.claims.evaluate import Outcome
from repro.answers.tables.groups import Group
from repro.answers.tables.loading import Summary
from repro.answers.tables.probes import ProbeGroup

COMPUTATION = ("forward", "backward", "update", "data", "other")  # phases
FUNCTIONS: dict[str, Callable[..., Outcome]] = {}  # each paper's `results` imports the modules that add to it
OF_PROBES: dict[str, str] = {}  # those over a probe's results (a ProbeGroup) -> the program


def function(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Make a function over a Group of training summaries known to the claims files."""
    FUNCTIONS[compute.__name__] = compute
    return compute


def takes_error(value: Value) -> bool:
    """Whether ratios are counted or compared, each of which may be wrong by a factor: a function's argument `off`."""
    return "off" in signature(FUNCTIONS[value.function]).parameters if value.function else value.takes_error


def probe_function(program: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """The same for one over a ProbeGroup of `program`."""

    def register(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
        OF_PROBES[compute.__name__] = program
        return function(compute)

    return register


def paired(group: Group, variants: list[str], number: Callable[..., float], phases: bool = False) -> Outcome:
    """number(*runs) for every seed that all `variants` have."""
    runs = [(group.phase_runs if phases else group.runs)(name) for name in variants]
    if missing := [name for name, found in zip(variants, runs, strict=True) if not found]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    seeds = sorted(set.intersection(*(set(found) for found in runs)))
    if not seeds:
        return Outcome(reason=f"no seed in common between {' and '.join(variants)}")
    return Outcome({seed: number(*(found[seed] for found in runs)) for seed in seeds})


def by_seed(group: ProbeGroup, number_of: Callable[[list[Summary]], float | None], reason: str) -> Outcome:
    """number_of(runs) for each seed that has one."""
    found = {seed: number_of(group.of_seed(seed)) for seed in group.seeds()}
    values = {seed: value for seed, value in found.items() if value is not None}
    return Outcome(values) if values else Outcome(reason=reason)


def rates(runs: Iterable[Summary]) -> dict[tuple[str, str], float]:
    """(experiment, variant) -> samples a second of all ranks together, the median over seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        found.setdefault((run["experiment"], run["variant"]), []).append(run["batch"] / run["step"]["mean_s"])
    return {place: median(values) for place, values in found.items()}


def final(run: Summary) -> float:
    """The metric at the end; NaN where nothing was really computed (a testbed without arithmetic)."""
    found = run["final"][run["metric"]]
    return math.nan if found is None else found
