"""Estimated durations of runs, from records of the same or of similar runs; the time until all runs of a command are
done.

A record's duration is the wall-clock time from `started_at` to `finished_at` of its provenance, in whole seconds.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from repro.experiment.run import Run
from repro.records import kinds
from repro.records.record import Found, Record, TrainResult
from repro.records.variants import REFERENCE, finished_at

# sources of an estimate, best first
SAME, SIZE, LIKE = "of the same runs", "of the same variants at another size", "of other runs of the experiment"
SLOWED = "of their simulations, slowed down"
UNKNOWN = "of no similar runs"
LEAST_S = 0.5  # shortest duration that is assumed: timestamps are whole seconds
STEADY_S = 10.0  # after this many seconds the observed pace and the expected one weigh the same


class Estimate(NamedTuple):
    """Estimated duration of a run; seconds: None if unknown; machine: the hardware class of the record used."""

    seconds: float | None = None
    by: str = UNKNOWN
    machine: str | None = None


class Workload(NamedTuple):
    """What determines the duration of a run. iterations: None for probes; device: of a modelled testbed."""

    experiment: tuple[Any, ...]  # paper and name
    variant: tuple[Any, ...]
    kind: str
    key: str
    scale: str
    iterations: float | None
    device: str = ""
    time_factor: float = 1.0  # wall-clock seconds per second of the run's own clock

    @classmethod
    def planned(cls, run: Run) -> Workload:
        config, plain = run.config, run.config.plain()
        variant = (run.variant, run.testbed, config.model.name)
        place = (config.paper, config.experiment)
        device = _device(plain["testbed"])
        factor = config.testbed.time_factor
        return cls(place, variant, kinds.of_config(plain), run.key, config.scale, run.iterations, device, factor)

    @classmethod
    def finished(cls, record: Record) -> Workload:
        identity, result = record.identity, record.result
        variant = (identity.variant, identity.testbed.name, identity.model.name if identity.model else None)
        iterations = result.iterations if isinstance(result, TrainResult) else None
        device = _device(identity.testbed.options)
        return cls(
            (identity.paper, identity.experiment), variant, record.kind, record.key, identity.scale, iterations, device
        )

    @property
    def without_testbed(self) -> tuple[Any, ...]:
        """Equal for an emulated run and its simulation."""
        variant, _, model = self.variant
        return (self.experiment, variant, model, self.device)

    def takes_as_long_as(self, other: Workload) -> bool:
        """Whether another run of the same variant takes as long: the same run, or one of the same scale."""
        return self.key == other.key or self.scale == other.scale

    def share(self, other: Workload) -> float | None:
        """Own iterations divided by those of another run."""
        return self.iterations / other.iterations if self.iterations and other.iterations else None


def _device(testbed: Mapping[str, Any]) -> str:
    return json.dumps(testbed.get("device"), sort_keys=True)


class Duration(NamedTuple):
    """Wall-clock seconds of a finished run; working_s: the part spent in iterations."""

    workload: Workload
    seconds: float
    working_s: float
    machine: str | None
    train_s: float | None = None  # on the run's own clock

    def of(self, planned: Workload) -> float | None:
        """The duration of a similar run, scaled by iterations; None for another size without iterations (probes)."""
        if planned.takes_as_long_as(self.workload):
            return self.seconds
        share = planned.share(self.workload)
        return None if share is None else self.seconds + (share - 1) * self.working_s


def run_duration(record: Record) -> Duration | None:
    """None if the record has no valid timestamps."""
    try:
        start, end = (datetime.fromisoformat(record.provenance[name]) for name in ("started_at", "finished_at"))
        seconds = max((end - start).total_seconds(), LEAST_S)
    except (KeyError, TypeError, ValueError):  # records of other people
        return None
    working = min(record.wall.get("total_s", 0.0), seconds)
    train_s = record.result.final.get("train_s") if isinstance(record.result, TrainResult) else None
    return Duration(Workload.finished(record), seconds, working, record.hardware.class_, train_s)


class Forecast:
    """Estimates from durations in the order in which the runs finished; later ones take precedence."""

    def __init__(self, durations: Iterable[Duration]):
        self._of_variant: dict[tuple[Any, ...], list[Duration]] = {}
        self._like: dict[tuple[Any, ...], list[Duration]] = {}
        self._simulated: dict[tuple[Any, ...], Duration] = {}
        for each in durations:
            if each.workload.kind == kinds.SIMULATED:
                self._simulated[each.workload.without_testbed] = each
            self._of_variant.setdefault((each.workload.experiment, each.workload.variant), []).append(each)
            self._like.setdefault((each.workload.experiment, each.workload.kind), []).append(each)

    def of(self, planned: Workload) -> Estimate:
        """From the latest record of the same run; else of its variant at another size, scaled by iterations; for an
        emulated run from its simulation, which moves as many bytes; else from runs of that kind in the experiment.

        None of a probe at another size: nothing says how its duration changes.
        """
        variant = self._of_variant.get((planned.experiment, planned.variant), [])
        if same := [each for each in variant if planned.takes_as_long_as(each.workload)]:
            return Estimate(same[-1].seconds, SAME, same[-1].machine)
        if variant and (seconds := variant[-1].of(planned)):
            return Estimate(seconds, SIZE, variant[-1].machine)
        twin = self._simulated.get(planned.without_testbed) if planned.kind == kinds.EMULATED else None
        if twin and twin.train_s and (share := planned.share(twin.workload)):
            return Estimate(planned.time_factor * share * twin.train_s, SLOWED, twin.machine)
        like = self._like.get((planned.experiment, planned.kind), [])
        if times := [seconds for each in like if (seconds := each.of(planned))]:
            return Estimate(median(times), LIKE, like[-1].machine)
        return Estimate()


def estimate_runs(runs: Sequence[Run], finished: Sequence[Found]) -> list[Estimate]:
    """Estimated duration of each run: from the workspace if it has the same run, else from all records."""
    by_end = sorted(finished, key=finished_at)
    durations = [(each.origin, known) for each in by_end if (known := run_duration(each.record))]
    workspace = Forecast(each for origin, each in durations if origin != REFERENCE)
    everything = Forecast(each for _, each in durations)
    planned = map(Workload.planned, runs)
    return [estimate if (estimate := workspace.of(each)).by == SAME else everything.of(each) for each in planned]


def pace_factor(observed: float, expected: float) -> float:
    """The factor by which to correct expected durations, from the observed and expected seconds of finished runs."""
    return (observed + STEADY_S) / (expected + STEADY_S)


class Expected(NamedTuple):
    """Wall-clock seconds of several runs; how many estimates have which source, and which machine."""

    seconds: float
    by: Counter[str]
    machines: Counter[str]


def total_duration(runs: Sequence[Run], each: Sequence[Estimate], cores: int) -> Expected:
    """Measured runs go one by one, simulated ones side by side, one per core. A run without an estimate counts as the
    median of its kind, or as zero."""
    measured, simulated = (
        fill_unknown([estimate.seconds for run, estimate in zip(runs, each, strict=True) if run.simulated == kind])
        for kind in (False, True)
    )
    machines = Counter(estimate.machine for estimate in each if estimate.machine)
    seconds = sum(measured) + side_by_side(simulated, cores)
    return Expected(seconds, Counter(estimate.by for estimate in each), machines)


def fill_unknown(times: Sequence[float | None]) -> list[float]:
    """The times, with the median of those that are known in place of None."""
    known = [each for each in times if each is not None]
    return [each if each is not None else median(known or [0.0]) for each in times]


def side_by_side(times: Sequence[float], cores: int) -> float:
    """Seconds that runs of one core each take on so many cores."""
    return max(sum(times) / max(cores, 1), *times) if times else 0.0


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
