"""The registry of functions that compute a claim's number from runs, one a seed, and helpers for them.

A claims file names a function and its arguments (`variant`: a variant's label); its text is never evaluated as code.
Times are seconds of an iteration unless the docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from repro.answers.claims.evaluate import Outcome, safe_ratio
from repro.answers.claims.stats import median_known
from repro.answers.tables.runs import Runs
from repro.core.errors import InputError
from repro.core.phases import COMPUTATION
from repro.records.record import Found
from repro.records.variants import VARIANT_COLUMNS

COMPUTING = (*COMPUTATION, "other")  # phases
FUNCTIONS: dict[str, Callable[..., Outcome]] = {}  # each paper's `derived*.py` adds to it
LARGEST: dict[str, float] = {}  # function -> the largest value that its number can have
PROBE_OF: dict[str, str] = {}  # function over a probe's results -> the probe


def function(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Register a function over training runs for the claims files."""
    FUNCTIONS[compute.__name__] = compute
    return compute


def correlation_function(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Register a function whose number is a correlation, which no error of a time takes beyond 1."""
    LARGEST[compute.__name__] = 1.0
    return function(compute)


def probe_function(program: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Register a function over runs of the probe `program`."""

    def register(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
        PROBE_OF[compute.__name__] = program
        return function(compute)

    return register


def paired(runs: Runs, variants: list[str], number: Callable[..., float]) -> Outcome:
    """number(*runs) for every seed that all `variants` have, of breakdown runs where there are any."""
    by_seed = [runs.seeds(name, breakdown=True) for name in variants]
    if missing := [name for name, seeds in zip(variants, by_seed, strict=True) if not seeds]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    if not (common := sorted(set.intersection(*map(set, by_seed)))):
        return Outcome(reason=f"no seed in common between {' and '.join(variants)}")
    return Outcome({seed: number(*(seeds[seed] for seeds in by_seed)) for seed in common})


def by_seed(runs: Runs, number_of: Callable[[list[Found]], float | None], reason: str) -> Outcome:
    """number_of(runs) for each seed at which it is not None; `reason` where it is None at all of them."""
    numbers = {seed: number_of(of_seed) for seed, of_seed in runs.by_seed().items()}
    values = {seed: number for seed, number in numbers.items() if number is not None}
    return Outcome(values) if values else Outcome(reason=reason)


@lru_cache(maxsize=256)  # a draw's runs speak to several claims
def median_rates(runs: Runs) -> dict[tuple[str, str], float]:
    """(experiment, variant) -> samples a second of all ranks together, the median over seeds; InputError for a variant
    on several testbeds."""
    return _median_rates(rate for of_seed in _rates(runs).values() for rate in of_seed)


def rates_by_seed(runs: Runs) -> dict[int, dict[tuple[str, str], float]]:
    """seed -> (experiment, variant) -> samples a second of all ranks together; InputError as `median_rates`."""
    return {seed: _median_rates(rates) for seed, rates in _rates(runs).items()}


def _rates(runs: Runs) -> dict[int, list[tuple[tuple[str, ...], float]]]:
    """seed -> (experiment, testbed, variant) of each run, and its samples a second."""
    rates: dict[int, list[tuple[tuple[str, ...], float]]] = {}
    columns = (runs.listed("runs", name) for name in ("seed", "=batch", "=step_s", *VARIANT_COLUMNS))
    for seed, batch, step_s, *variant in zip(*columns, strict=True):
        rates.setdefault(seed, []).append((tuple(variant), safe_ratio(batch, step_s)))
    return rates


def _median_rates(rates: Iterable[tuple[tuple[str, ...], float]]) -> dict[tuple[str, str], float]:
    of_variants: dict[tuple[str, ...], list[float]] = {}
    for place, rate in rates:
        of_variants.setdefault(place, []).append(rate)
    found: dict[tuple[str, str], float] = {}
    for (experiment, _, variant), of_seeds in of_variants.items():
        if (experiment, variant) in found:
            raise InputError(f"{variant} of {experiment}: a rate needs runs on one testbed")
        found[experiment, variant] = median_known(of_seeds)
    return found
