"""The estimated time until all runs of a command are done: expected durations, corrected by those of ended runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from repro.launch.forecast import pace_factor, side_by_side

LEAST_SHARE = 0.05  # a run's own speed is used once this share of its iterations is done


class Planned(NamedTuple):
    """A run to be done; seconds: its expected duration, None if unknown."""

    seconds: float | None = None
    simulated: bool = False


@dataclass
class Remaining:
    """Estimator for runs of which simulated ones go side by side, one per core, and the others one by one."""

    runs: Mapping[str, Planned]
    cores: int = 1
    _started: dict[str, float] = field(default_factory=dict)
    _ended: dict[str, float] = field(default_factory=dict)  # seconds that the run lasted

    def begin(self, name: str) -> None:
        self._started.setdefault(name, time.monotonic())

    def done(self, name: str) -> None:
        if name in self._started:
            self._ended[name] = time.monotonic() - self._started.pop(name)

    def postponed(self, name: str) -> None:
        self._started.pop(name, None)

    def left(self, shares: Mapping[str, float]) -> float | None:
        """Seconds left; None if unknown. shares: completed shares of the iterations of the active runs."""
        measured, simulated = (
            self._of_kind({name: run for name, run in self.runs.items() if run.simulated == kind}, shares)
            for kind in (False, True)
        )
        if measured is None or simulated is None:
            return None
        return sum(measured) + side_by_side(simulated, self.cores)

    def _of_kind(self, runs: Mapping[str, Planned], shares: Mapping[str, float]) -> list[float] | None:
        """Seconds left of each run that has not ended."""
        now = time.monotonic()
        active = {name: now - self._started[name] for name in runs if name in self._started}
        by_speed = {name: active[name] / shares[name] for name in active if shares.get(name, 0.0) >= LEAST_SHARE}
        ended = {name: self._ended[name] for name in runs if name in self._ended}
        known = [(ended[name], expected) for name in ended if (expected := runs[name].seconds) is not None]
        factor = pace_factor(sum(seconds for seconds, _ in known), sum(expected for _, expected in known))
        corrected = {name: run.seconds * factor for name, run in runs.items() if run.seconds is not None}
        totals = corrected | by_speed
        similar = [*ended.values(), *by_speed.values()] or [*corrected.values()]
        left = []
        for name in (name for name in runs if name not in ended):
            if name not in totals and not similar:
                return None
            total = totals[name] if name in totals else median(similar)
            left.append(max(total - active.get(name, 0.0), 0.0))
        return left
