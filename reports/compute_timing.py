"""What functions over a probe's results share: a number a seed, a median."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro.reporting.evaluate import Outcome
from repro.reporting.stats import spread
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup


def by_seed(group: ProbeGroup, number_of: Callable[[list[Summary]], float | None], reason: str, note: str) -> Outcome:
    """number_of(runs) for each seed that has one."""
    found = {seed: number_of(group.of_seed(seed)) for seed in group.seeds()}
    values = {seed: value for seed, value in found.items() if value is not None}
    return Outcome(values, note=note) if values else Outcome(reason=reason)


def median(values: Any) -> float | None:
    """The median, None of nothing."""
    found = spread(values)
    return found.median if found.n else None
