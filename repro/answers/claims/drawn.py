"""An experiment's sweeps as runs: a run a variant and draw, whose seed is the draw, so that a claim's numbers are
computed from them as from any runs, one a draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from repro.answers.claims import decides, residuals
from repro.answers.claims.residuals import Residuals
from repro.answers.tables.loading import Drawn, Summary
from repro.answers.tables.runs import Runs
from repro.records.flat import PARTS, PLAIN

ERRORS = 64  # draws of the validated error, of runs of which nothing is assumed


@dataclass(frozen=True, eq=False)
class Sweeps:
    """Those of an experiment.

    trained: its runs with arithmetic, whose seeds take turns to say after how many iterations a draw is at a target. A
    claim that multiplies these by a time says that they do not depend on it.
    """

    sweeps: Sequence[Drawn]
    trained: Runs | None = None

    @cached_property
    def configured(self) -> Runs:
        """Each run with every input as configured."""
        return Runs.of(one.summary | {"seed": 0} | self._targets(one.summary, 0) for one in self.sweeps)

    def _targets(self, run: Summary, draw: int) -> Summary:
        seeds = [*self.trained.seeds(run["variant"]).values()] if self.trained else []
        unknown = {name: {"iteration": math.nan} for name in run.get("targets") or {}}
        reached = (seeds[draw % len(seeds)].get("targets") or {}) if seeds else unknown
        return {"targets": {name: at and at | {"train_s": math.nan} for name, at in reached.items()}}

    def runs(self, errors: Residuals | None) -> Runs:
        """Every draw, its times off by these errors, or as simulated."""
        of_draw = cache(errors.of_draw) if errors else None

        def made() -> Iterable[Summary]:
            for one in self.sweeps:
                for draw in one.draws:
                    factor = of_draw(draw.number).of(one.summary) if of_draw else 1.0
                    own = {"seed": draw.number} | self._targets(one.summary, draw.number)
                    yield at_draw(one.summary, draw.result, factor) | own

        return Runs.of(made())

    @cached_property
    def inputs(self) -> Mapping[str, Sequence[float]]:
        """Input -> a number a draw: the value of its first entry, or the number of the hypothesis."""
        found: dict[str, dict[int, Any]] = {}
        for one in self.sweeps:
            for draw in one.draws:
                for name, entries in draw.values.items():
                    found.setdefault(name, {}).setdefault(draw.number, next(iter(entries.values())))
        return {
            name: _numbers([of[n] for n in range(self.common)]) for name, of in found.items() if len(of) >= self.common
        }

    @property
    def common(self) -> int:
        """How many draws, the first, every sweep has."""
        return min(len(one.draws) for one in self.sweeps)

    def decided_by(self, values: Mapping[int, float]) -> str:
        """Which input decides a number a draw (`repro.answers.claims.decides`)."""
        count = min(map(len, self.inputs.values()), default=0)  # of draws that are still being made the first
        both = [n for n in values if n < count]
        inputs = {name: [of[n] for n in both] for name, of in self.inputs.items()}
        return decides.decides([values[n] for n in both], inputs)


def _numbers(values: Sequence[Any]) -> list[float]:
    if all(isinstance(value, int | float) for value in values):
        return [float(value) for value in values]
    names = sorted({str(value) for value in values})
    return [float(names.index(str(value))) for value in values]


def at_draw(summary: Summary, result: Mapping[str, Any], factor: float) -> Summary:
    """A run's summary with the result of a draw, its times longer by a factor."""
    given = result if factor == 1.0 else residuals.scaled(result, factor)
    if "found" in given:
        return summary | {"result": given["found"], "metrics": given.get("metrics", {})}
    return summary | {name: given[name] for name in (*PLAIN, *PARTS) if name in given}


def erring(runs: Runs, errors: Residuals) -> Runs:
    """Runs of which nothing is assumed, each as often as the validated error is drawn."""

    def made() -> Iterable[Summary]:
        for run in runs.records.values():
            for number in range(ERRORS):
                factor = errors.of_draw(number).of(run)
                scaled = residuals.scaled({name: run[name] for name in TIMES if run.get(name)}, factor)
                yield run | scaled | {"seed": number}

    return Runs.of(made())


TIMES = ("step", "phases", "server_phases", "communication", "final", "targets", "result", "metrics", "per_rank")


def towards(values: Mapping[int, float], twin: float) -> dict[int, float]:
    """Simulated values, each a part of the way to where the emulated twin is, on a log scale."""
    parts = np.random.default_rng(residuals.SEED).random(max(values, default=0) + 1)
    return {draw: value * twin ** float(parts[draw]) for draw, value in values.items()}
