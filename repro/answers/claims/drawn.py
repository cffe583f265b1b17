"""An experiment's sweeps over draws as runs: a run a variant and draw, with the draw's number in place of the seed.

So a claim's numbers are computed from draws as from seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from repro.answers.claims import decides, residuals
from repro.answers.claims.residuals import Residuals
from repro.answers.tables.escaping import escaped
from repro.answers.tables.loading import Drawn, Summary
from repro.answers.tables.runs import Runs
from repro.records.flat import OF_RESULT

UNKNOWN = {"iteration": math.nan}  # a target of runs without arithmetic
ERRORS = 64  # draws of the validated error for runs without assumed inputs
TIMES = ("step", "phases", "server_phases", "communication", "final", "targets", "result", "metrics", "per_rank")


@dataclass(frozen=True, eq=False)
class Sweeps:
    """The sweeps of an experiment.

    trained: its runs with arithmetic. Their seeds take turns in giving the iterations to a target at a draw: a claim
    that multiplies these by a time assumes that they do not depend on it.
    """

    sweeps: Sequence[Drawn]
    trained: Runs | None = None

    @cached_property
    def configured(self) -> Runs:
        """Each run with every input as configured."""
        return Runs.of(one.summary | {"seed": 0} | self._targets(one.summary, 0) for one in self.sweeps)

    def _targets(self, run: Summary, draw: int) -> Summary:
        seeds = [*self.trained.seeds(run["variant"]).values()] if self.trained else []
        reached = seeds[draw % len(seeds)].get("targets") if seeds else dict.fromkeys(run.get("targets") or (), UNKNOWN)
        return {"targets": {name: at and at | {"train_s": math.nan} for name, at in (reached or {}).items()}}

    def runs(self, errors: Residuals | None) -> Runs:
        """A run a draw, its times multiplied by an error drawn from `errors`, if there are any."""
        of_draw = cache(errors.of_draw) if errors else None

        def made() -> Iterable[Summary]:
            for one in self.sweeps:
                for draw in one.draws:
                    factor = of_draw(draw.number).of(one.summary) if of_draw else 1.0
                    own = {"seed": draw.number} | self._targets(one.summary, draw.number)
                    yield at_draw(one.summary, draw.result, factor) | own

        return Runs.of(made())

    @cached_property
    def entries(self) -> Mapping[str, tuple[str, Sequence[Any]]]:
        """Input -> its first entry, and the entry's value a draw that all sweeps have; text as Markdown."""
        values: dict[str, dict[int, tuple[str, Any]]] = {}
        for one in self.sweeps:
            for draw in one.draws:
                for name, entries in draw.values.items():
                    values.setdefault(name, {}).setdefault(draw.number, next(iter(entries.items())))
        common = range(self.common)
        known = {name: [own[n] for n in common] for name, own in values.items() if len(own) >= self.common}
        listed = {name: (own[0][0], [value for _, value in own]) for name, own in known.items() if own}
        return {
            escaped(name): (escaped(entry), [escaped(value) if isinstance(value, str) else value for value in values])
            for name, (entry, values) in listed.items()
        }

    @property
    def inputs(self) -> Mapping[str, Sequence[float]]:
        """Input -> a number a draw: the value of its first entry, or the index of its hypothesis."""
        return {name: _numbers(values) for name, (_, values) in self.entries.items()}

    @property
    def common(self) -> int:
        """The number of draws that every sweep has."""
        return min(len(one.draws) for one in self.sweeps)

    def decided_by(self, values: Mapping[int, float]) -> str:
        """The input that decides a number a draw (`deciding_input`)."""
        both = [n for n in values if n < self.common]  # other draws are still being made
        inputs = {name: [of[n] for n in both] for name, of in self.inputs.items()}
        return decides.deciding_input([values[n] for n in both], inputs)

    def turns_at(self, holds: Mapping[int, bool]) -> str:
        """The input and its value at which an answer a draw turns (`turning_value`)."""
        both = [n for n in holds if n < self.common]
        inputs = {name: (entry, [of[n] for n in both]) for name, (entry, of) in self.entries.items()}
        return decides.turning_value([holds[n] for n in both], inputs)


def _numbers(values: Sequence[Any]) -> list[float]:
    if all(isinstance(value, int | float) for value in values):
        return [float(value) for value in values]
    names = sorted({str(value) for value in values})
    return [float(names.index(str(value))) for value in values]


def at_draw(summary: Summary, result: Mapping[str, Any], factor: float) -> Summary:
    """A run's summary with the result of a draw, its times multiplied by a factor."""
    own = result if factor == 1.0 else residuals.scaled(result, factor)
    if "found" in own:
        return summary | {"result": own["found"], "metrics": own.get("metrics", {})}
    return summary | {name: own[name] for name in OF_RESULT if name in own}


def erring(runs: Runs, errors: Residuals) -> Runs:
    """Runs without assumed inputs, each repeated with `ERRORS` draws of the validated error."""

    def made() -> Iterable[Summary]:
        for run in runs.records.values():
            for number in range(ERRORS):
                factor = errors.of_draw(number).of(run)
                scaled = residuals.scaled({name: run[name] for name in TIMES if run.get(name)}, factor)
                yield run | scaled | {"seed": number}

    return Runs.of(made())


def towards(values: Mapping[int, float], twin: Sequence[float], most: float = 1.0) -> dict[int, float]:
    """Simulated values, each moved a random part of the way to a seed of the emulated twin, on a log scale.

    twin: emulated over simulated, a ratio a seed, which take turns over the draws; without any the values stay. most:
    the largest part.
    """
    parts = most * np.random.default_rng(residuals.SEED).random(max(values, default=0) + 1)
    twin = twin or [1.0]
    return {draw: value * twin[draw % len(twin)] ** float(parts[draw]) for draw, value in values.items()}
