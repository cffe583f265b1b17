"""Estimated durations of runs, from records of the same or of similar runs; the time until all runs of a command are
done.

A record's duration is the wall-clock time from `started_at` to `finished_at` of its provenance, in whole seconds,
without the share that others took of its cores where the record knows it. Of several on one machine the shortest
counts, for a busy machine only makes a run longer.
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

from repro.core.not_none import not_none
from repro.experiment.run import Run
from repro.records import kinds
from repro.records.identity import Identity
from repro.records.record import Found, Record, TrainResult
from repro.records.variants import REFERENCE, finished_at, user_changes

# sources of an estimate, best first
SAME, SIZE, LIKE = "of the same runs", "of the same variants at another size", "of other runs of the experiment"
UNKNOWN = "of no similar runs"
# Of other runs of an experiment nine in ten must lie within this factor of their median: on the committed runs such
# medians were within it in 97 %, others in 47 to 74 %, and in 17 % for another machine.
AGREE, WITHIN = 0.9, 2.0
LEAST_S = 0.5  # shortest duration that is assumed: timestamps are whole seconds
STEADY_S = 10.0  # after this many seconds the observed pace and the expected one weigh the same


class Estimate(NamedTuple):
    """Estimated duration of a run; seconds: None if unknown; machine: the hardware class of the record used.

    most_s: if unknown, the longest of other runs of the experiment on this class of machine. On the committed runs 93 %
    took at most as long as it, 99 % at most twice; as the longest on another machine 64 %, so that none is taken there.
    """

    seconds: float | None = None
    by: str = UNKNOWN
    machine: str | None = None
    most_s: float | None = None


class Workload(NamedTuple):
    """What determines the duration of a run. iterations: None for probes; machine: the hardware class."""

    experiment: tuple[Any, ...]  # paper, name, and what the user changed of the work of an iteration
    variant: tuple[Any, ...]
    kind: str
    key: str
    scale: str
    iterations: float | None
    machine: str | None

    @classmethod
    def planned(cls, run: Run) -> Workload:
        kind, machine = kinds.of_config(run.config.plain()), run.hardware.get("class")
        return cls._of(run.config.identity, kind, run.key, run.iterations, machine)

    @classmethod
    def finished(cls, record: Record) -> Workload:
        iterations = record.result.iterations if isinstance(record.result, TrainResult) else None
        return cls._of(record.identity, record.kind, record.key, iterations, record.hardware.class_)

    @classmethod
    def _of(cls, identity: Identity, kind: str, key: str, iterations: float | None, machine: str | None) -> Workload:
        variant = (identity.variant, identity.testbed.name, identity.model and identity.model.name)
        experiment = (identity.paper, identity.experiment, _changed_work(identity))
        return cls(experiment, variant, kind, key, identity.scale, iterations, machine)

    def takes_as_long_as(self, other: Workload) -> bool:
        """Whether another run of the same variant takes as long: the same run, or one of the same size."""
        return self.key == other.key or (self.scale, self.iterations) == (other.scale, other.iterations)

    def likeness(self, other: Workload) -> float:
        """1 for a run of as many iterations, else the fewer over the more; 0 if unknown."""
        share = self.share(other)
        return min(share, 1 / share) if share else 0.0

    def share(self, other: Workload) -> float | None:
        """Own iterations divided by those of another run."""
        return self.iterations / other.iterations if self.iterations and other.iterations else None


# what a user may change while other runs of the experiment still tell how long an iteration takes
OF_SAME_WORK = ("strategy.", "optimizer.", "imbalance.", "epochs", "targets")


def _changed_work(identity: Identity) -> str:
    """What the user's overrides changed, such as model or minibatch, in one text; only equal ones are compared."""
    values = identity.values
    changed = [path for path in user_changes(identity) if path in values and not path.startswith(OF_SAME_WORK)]
    return json.dumps({path: values[path] for path in sorted(changed)}, default=str)


class Duration(NamedTuple):
    """Wall-clock seconds of a finished run, as on an idle machine; working_s: the part spent in iterations."""

    workload: Workload
    seconds: float
    working_s: float

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
    own = 1 - (record.cpu_taken_share or 0.0)
    return Duration(Workload.finished(record), max(own * seconds, LEAST_S), own * working)


class Forecast:
    """Estimates from durations in the order in which the runs finished; later ones take precedence."""

    def __init__(self, durations: Iterable[Duration]):
        self._of_variant: dict[tuple[Any, ...], list[Duration]] = {}
        self._like: dict[tuple[Any, ...], list[Duration]] = {}
        for each in durations:
            work = each.workload
            self._of_variant.setdefault((work.experiment, work.variant), []).append(each)
            self._like.setdefault((work.experiment, work.kind, work.machine), []).append(each)

    def of(self, planned: Workload) -> Estimate:
        """From records of the same run; else of its variant at the nearest other size, scaled by iterations; of both
        those on the machine of the latest. Else from runs of that kind in the experiment on this class of machine, if
        these agree (`AGREE`).

        None of a probe at another size: nothing says how its duration changes.
        """
        variant = self._of_variant.get((planned.experiment, planned.variant), [])
        if same := [each for each in variant if planned.takes_as_long_as(each.workload)]:
            return Estimate(shortest_on_last_machine(same, planned), SAME, same[-1].workload.machine)
        if sized := [each for each in variant if each.of(planned)]:
            nearest = max(map(planned.likeness, (each.workload for each in sized)))
            sized = [each for each in sized if planned.likeness(each.workload) == nearest]
            return Estimate(shortest_on_last_machine(sized, planned), SIZE, sized[-1].workload.machine)
        like = self._like.get((planned.experiment, planned.kind, planned.machine), [])
        times = [seconds for each in like if (seconds := each.of(planned))]
        agreed = agreed_median(times)
        return Estimate(most_s=max(times, default=None)) if agreed is None else Estimate(agreed, LIKE, planned.machine)


def shortest_on_last_machine(durations: Sequence[Duration], planned: Workload) -> float:
    """The least duration for a planned run, by those on the machine of the latest."""
    machine = durations[-1].workload.machine
    return min(not_none(each.of(planned)) for each in durations if each.workload.machine == machine)


def agreed_median(times: Sequence[float]) -> float | None:
    """The median of durations of similar runs; None if too few lie near it (`AGREE`)."""
    middle = median(times) if times else 0.0
    near = sum(middle / WITHIN <= each <= middle * WITHIN for each in times)
    return middle if times and near >= AGREE * len(times) else None


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
    """Wall-clock seconds of the runs of known duration; how many estimates have which source, and which machine."""

    seconds: float
    by: Counter[str]
    machines: Counter[str]


def total_duration(runs: Sequence[Run], each: Sequence[Estimate], cores: int) -> Expected:
    """Measured runs go one by one, simulated ones side by side, one per core."""
    known = [(run.simulated, estimate.seconds) for run, estimate in zip(runs, each, strict=True)]
    measured, simulated = (
        [seconds for modelled, seconds in known if modelled == kind and seconds is not None] for kind in (False, True)
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


# a run's own speed is used once it has done this share of its iterations, or has iterated for so long
LEAST_SHARE, LEAST_ITERATING_S = 0.05, 20.0


class Planned(NamedTuple):
    """A run to be done; seconds: its expected duration, None if unknown."""

    seconds: float | None = None
    simulated: bool = False


class TimeLeft(NamedTuple):
    """Seconds left of the runs of known duration; whole: those are all runs."""

    seconds: float
    whole: bool


@dataclass
class Remaining:
    """Estimator for runs of which simulated ones go side by side, one per core, and the others one by one."""

    runs: Mapping[str, Planned]
    cores: int = 1
    _started: dict[str, float] = field(default_factory=dict)
    _ended: dict[str, float] = field(default_factory=dict)  # seconds that the run lasted
    _failed: set[str] = field(default_factory=set)
    # the first share of its iterations that the run reported, above 0 if it was resumed, and when
    _first: dict[str, tuple[float, float]] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        self._started.setdefault(name, time.monotonic())

    def done(self, name: str) -> None:
        if name in self._started:
            self._ended[name] = time.monotonic() - self._started.pop(name)

    def failed(self, name: str) -> None:
        """Its duration tells nothing of the others': it did not do all of its iterations."""
        self._started.pop(name, None)
        self._failed.add(name)

    def postponed(self, name: str) -> None:
        self._started.pop(name, None)
        self._first.pop(name, None)

    def left(self, shares: Mapping[str, float]) -> TimeLeft | None:
        """None if nothing is known. shares: completed shares of the iterations of the active runs."""
        measured, simulated = (
            self._of_kind({name: run for name, run in self.runs.items() if run.simulated == kind}, shares)
            for kind in (False, True)
        )
        whole = None not in (*measured, *simulated)
        known = [[each for each in times if each is not None] for times in (measured, simulated)]
        return TimeLeft(sum(known[0]) + side_by_side(known[1], self.cores), whole) if whole or any(known) else None

    def _of_kind(self, runs: Mapping[str, Planned], shares: Mapping[str, float]) -> list[float | None]:
        """Seconds left of each run that has not ended; None if unknown."""
        now = time.monotonic()
        active = {name: now - self._started[name] for name in runs if name in self._started}
        by_speed = {
            name: active[name] + left for name in active if (left := self._left_by_speed(name, shares)) is not None
        }
        ended = {name: self._ended[name] for name in runs if name in self._ended}
        known = [(ended[name], expected) for name in ended if (expected := runs[name].seconds) is not None]
        factor = pace_factor(sum(seconds for seconds, _ in known), sum(expected for _, expected in known))
        corrected = {name: run.seconds * factor for name, run in runs.items() if run.seconds is not None}
        totals = corrected | by_speed
        similar = agreed_median([*ended.values(), *by_speed.values()] or [*corrected.values()])
        whole = {name: totals.get(name, similar) for name in runs if name not in ended and name not in self._failed}
        return [None if total is None else max(total - active.get(name, 0.0), 0.0) for name, total in whole.items()]

    def _left_by_speed(self, name: str, shares: Mapping[str, float]) -> float | None:
        """Seconds left of a run's iterations at its own speed so far; None if it has done too few."""
        if name not in shares:
            return None
        now, share = time.monotonic(), shares[name]
        began, before = self._first.setdefault(name, (now, share))
        done, seconds = share - before, now - began
        enough = done >= LEAST_SHARE or seconds >= LEAST_ITERATING_S
        return (1 - share) * seconds / done if enough and done > 0 else None
