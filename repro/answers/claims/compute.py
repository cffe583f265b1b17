"""How ours is computed for a claim: small functions from runs to one number a seed.

A claims file names one of these functions and its arguments (`variant`: a variant's label); nothing of it is
evaluated as code. Times are seconds an iteration unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from repro.answers.claims.evaluate import Outcome
from repro.answers.tables.loading import Summary
from repro.answers.tables.runs import Runs

COMPUTATION = ("forward", "backward", "update", "data", "other")  # phases
FUNCTIONS: dict[str, Callable[..., Outcome]] = {}  # each paper's `derived*.py` adds to it
OF_PROBES: dict[str, str] = {}  # those over a probe's results -> the program


def function(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Make a function over runs that trained known to the claims files."""
    FUNCTIONS[compute.__name__] = compute
    return compute


def probe_function(program: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """The same for one over runs of the probe `program`."""

    def register(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
        OF_PROBES[compute.__name__] = program
        return function(compute)

    return register


def paired(runs: Runs, variants: list[str], number: Callable[..., float]) -> Outcome:
    """number(*runs) for every seed that all `variants` have, of breakdown runs where there are any."""
    found = [runs.seeds(name, breakdown=True) for name in variants]
    if missing := [name for name, of in zip(variants, found, strict=True) if not of]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    seeds = sorted(set.intersection(*(set(of) for of in found)))
    if not seeds:
        return Outcome(reason=f"no seed in common between {' and '.join(variants)}")
    return Outcome({seed: number(*(of[seed] for of in found)) for seed in seeds})


def by_seed(runs: Runs, number_of: Callable[[list[Summary]], float | None], reason: str) -> Outcome:
    """number_of(runs) for each seed that has one."""
    found = {seed: number_of(of) for seed, of in runs.by_seed().items()}
    values = {seed: value for seed, value in found.items() if value is not None}
    return Outcome(values) if values else Outcome(reason=reason)


def rates(runs: Runs) -> dict[tuple[str, str], float]:
    """(experiment, variant) -> samples a second of all ranks together, the median over seeds."""
    of = runs.frame.assign(rate=runs.frame["batch"] / runs.frame["step_s"])
    return dict(of.groupby(["experiment", "variant"])["rate"].median())
