"""What is left of a job, in seconds on the wall: what was expected of its runs, corrected by those that have ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from repro.launch.forecast import pace, side_by_side

TELLING = 0.05  # the part of a run's iterations from which on they tell how long it takes


class Planned(NamedTuple):
    """A run to come. seconds: expected of it, None where nobody knows."""

    seconds: float | None = None
    simulated: bool = False


@dataclass
class Remaining:
    """The clock of a job whose simulated runs go side by side, one a core, and all others one by one."""

    runs: Mapping[str, Planned]
    cores: int = 1
    _began: dict[str, float] = field(default_factory=dict)
    _took: dict[str, float] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        self._began.setdefault(name, time.monotonic())

    def done(self, name: str) -> None:
        if name in self._began:
            self._took[name] = time.monotonic() - self._began.pop(name)

    def left(self, shares: Mapping[str, float]) -> float | None:
        """Seconds; None while nothing tells. shares: of their iterations that the runs under way have done."""
        parts = []
        for simulated in (False, True):
            of_kind = {name: run for name, run in self.runs.items() if run.simulated == simulated}
            if (times := self._of_kind(of_kind, shares)) is None:
                return None
            parts.append(side_by_side(times, self.cores) if simulated else sum(times))
        return sum(parts)

    def _of_kind(self, runs: Mapping[str, Planned], shares: Mapping[str, float]) -> list[float] | None:
        """What is left of each run that has not ended."""
        now = time.monotonic()
        going = {name: now - self._began[name] for name in runs if name in self._began}
        told = {name: going[name] / shares[name] for name in going if shares.get(name, 0.0) >= TELLING}
        ended = {name: self._took[name] for name in runs if name in self._took}
        known = [(ended[name], expected) for name in ended if (expected := runs[name].seconds) is not None]
        by = pace(sum(took for took, _ in known), sum(expected for _, expected in known))
        usual = [*ended.values(), *told.values()] or [r.seconds * by for r in runs.values() if r.seconds is not None]
        left = []
        for name, run in runs.items():
            if name in ended:
                continue
            if name in told:
                whole = told[name]
            elif run.seconds is not None:
                whole = run.seconds * by
            elif usual:
                whole = median(usual)
            else:
                return None
            left.append(max(whole - going.get(name, 0.0), 0.0))
        return left
