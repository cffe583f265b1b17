"""An experiment's sweeps over draws as runs: a run a variant and draw, with the draw's number in place of the seed.

So a claim's numbers are computed from draws as from seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeGuard

import numpy as np

from repro.answers.claims import decides, residuals
from repro.answers.claims.residuals import Residuals
from repro.answers.tables.runs import Runs
from repro.core.fields import entry_at
from repro.core.input_names import describe_names
from repro.records.identity import Part
from repro.records.record import Found, ProbeResult, Reached, TrainResult
from repro.records.sweep import Draw
from repro.records.units import scale_times

UNKNOWN = Reached.model_construct(train_s=math.nan)  # a target of runs without arithmetic
NEVER = Reached.model_construct(train_s=math.inf, iteration=math.inf)
MINIBATCH, BATCH = "minibatch", "batch"  # the input, and the entry that it stands for
ERRORS = 64  # draws of the validated error for runs without assumed inputs


@dataclass(frozen=True)
class Drawn:
    """A sweep over draws: its run as configured, and its draws."""

    run: Found
    draws: Sequence[Draw]


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
        return Runs.of(self._at(each.run, each.run.record.result, 0) for each in self.sweeps)

    def _at(self, run: Found, result: TrainResult | ProbeResult, draw: int) -> Found:
        """A run at a draw, whose number stands for the seed, with the result there and the targets of a trained run."""
        if not isinstance(result, TrainResult) or not result.targets:
            return run.changed(result, seed=draw)
        seeds = [*self.trained.seeds(run.label, experiment=run.identity.experiment).values()] if self.trained else []
        reached = seeds[draw % len(seeds)].training.targets if seeds else dict.fromkeys(result.targets, UNKNOWN)
        targets = {name: at.model_copy(update={"train_s": math.nan}) if at else NEVER for name, at in reached.items()}
        return run.changed(result.model_copy(update={"targets": targets}), seed=draw)

    def runs(self, errors: Residuals | None) -> Runs:
        """A run a draw, its times multiplied by an error drawn from `errors`, if there are any."""
        of_draw = cache(errors.of_draw) if errors else None

        def made(each: Drawn) -> Iterable[Found]:
            for draw in each.draws:
                factor = of_draw(draw.number).factor_for(each.run) if of_draw else 1.0
                result = with_entries(each.run.record.result, scale_times(draw.result, factor))
                yield self._at(each.run, result, draw.number)

        return Runs.of_results((each.run, made(each)) for each in self.sweeps)

    @cached_property
    def entries(self) -> Mapping[str, Mapping[int, tuple[str, Any]]]:
        """Input -> draw -> its first entry, and that entry's value: the same in all sweeps that have the input.

        A minibatch is that of a machine in samples (`samples_a_machine`).
        """
        entries: dict[str, dict[int, tuple[str, Any]]] = {}
        for each in self.sweeps:
            for draw in each.draws:
                for name, drawn in draw.values.items():
                    first = next(iter(drawn.items()))
                    of_machine = samples_a_machine(each.run, *first) if name == MINIBATCH else first
                    entries.setdefault(name, {}).setdefault(draw.number, of_machine)
        return entries

    def inputs(self, draws: Collection[int]) -> Mapping[str, tuple[str, Sequence[Any]]]:
        """Input -> its first entry, and the entry's value at each of these draws. An input that lacks one of them is of
        other sweeps than those that have the draws."""
        known = {name: [drawn[n] for n in draws] for name, drawn in self.entries.items() if drawn.keys() >= {*draws}}
        return {name: (drawn[0][0], [value for _, value in drawn]) for name, drawn in known.items() if drawn}

    @property
    def common(self) -> int:
        """The number of draws that every sweep has."""
        return min(len(each.draws) for each in self.sweeps)

    def decided_by(self, values: Mapping[int, float]) -> str:
        """The input that decides a number a draw (`deciding_input`): by the value of its first entry, or the index of
        its hypothesis."""
        inputs = {name: _numbers(of_input) for name, (_, of_input) in self.inputs(values).items()}
        return decides.deciding_input([*values.values()], inputs)

    def turns_at(self, holds: Mapping[int, bool]) -> str:
        """Where an answer a draw holds (`turning_value`)."""
        words = describe_names()
        return decides.turning_value(
            [*holds.values()], {words.get(name, name): drawn for name, drawn in self.inputs(holds).items()}
        )


def samples_a_machine(run: Found, entry: str, value: float) -> tuple[str, float]:
    """The minibatch of a machine at a draw, in samples: of all machines' minibatch, or of the rate of computation in
    whose place it is drawn: at half the configured rate, twice the configured minibatch takes as long."""
    identity, each = run.identity, run.identity.batch / run.identity.workers
    if entry == BATCH:
        return BATCH, value / identity.workers
    return BATCH, each * entry_at(identity.model_dump(mode="json"), entry) / value


def _numbers(values: Sequence[Any]) -> list[float]:
    if all(isinstance(value, int | float) for value in values):
        return [float(value) for value in values]
    names = sorted({str(value) for value in values})
    return [float(names.index(str(value))) for value in values]


def with_entries(result: TrainResult | ProbeResult, entries: Mapping[str, Any]) -> TrainResult | ProbeResult:
    """A result with other entries, plain data of which its type knows some."""
    fields = type(result).model_fields
    known = {name: value for name, value in entries.items() if name in fields}
    forms = {name: fields[name].annotation for name in known}
    parts = {name: form.model_construct(**known[name]) for name, form in forms.items() if is_part(form)}
    return result.model_copy(update=known | parts)


def is_part(form: Any) -> TypeGuard[type[Part]]:
    return isinstance(form, type) and issubclass(form, Part)


def runs_beside(group: Runs, at_draws: Runs, experiment: str) -> dict[int, Runs]:
    """draw -> the experiment's runs of a group, and those of other experiments at that draw."""
    trained = group.where(experiment=experiment)
    joined = trained.joined(at_draws)
    draws: dict[int, list[int]] = {}
    for number, run in joined.records.items():
        if run.identity.experiment != experiment:
            draws.setdefault(run.identity.seed, []).append(number)
    return {draw: joined.only([*trained.records, *draws[draw]]) for draw in sorted(draws)}


def erring(runs: Runs, errors: Residuals) -> Runs:
    """Runs without assumed inputs, each repeated with `ERRORS` draws of the validated error."""

    def made(run: Found) -> Iterable[Found]:
        result = run.record.result
        timed = {name: part for name, part in result if scale_times({name: part}, 2.0) != {name: part}}  # no traces
        for number in range(ERRORS):
            factor = errors.of_draw(number).factor_for(run)
            yield run.changed(result.model_copy(update=scale_times(timed, factor)), seed=number)

    return Runs.of_results((run, made(run)) for run in runs.records.values())


def towards(values: Mapping[int, float], twin: Sequence[float], most: float = 1.0) -> dict[int, float]:
    """Simulated values, each moved a random part of the way to a seed of the emulated twin, on a log scale.

    twin: emulated over simulated, a ratio a seed, which take turns over the draws; without any the values stay. most:
    the largest part.
    """
    parts = most * np.random.default_rng(residuals.SEED).random(max(values, default=0) + 1)
    twin = twin or [1.0]
    return {draw: value * twin[draw % len(twin)] ** float(parts[draw]) for draw, value in values.items()}
