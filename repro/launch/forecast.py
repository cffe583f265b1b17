"""How long runs will take, by what is recorded of the same ones, else of ones like them.

A record says when its run began and ended (`provenance`), so its duration is that of the wall clock on its machine, in
whole seconds, whatever else that machine did.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from repro.experiment.run import Run
from repro.records import kinds
from repro.records.catalogue import REFERENCE, Found
from repro.records.record import Record, TrainResult

# what an estimate rests on, best first
SAME, SIZE, LIKE = "of the same runs", "of the same variants at another size", "of other runs of the experiment"
SLOWED = "of their simulations, slowed down"
UNKNOWN = "of none like them"
LEAST_S = 0.5  # of a record in whole seconds
STEADY_S = 10.0  # a pace counts for half where so many seconds speak for it


class Estimate(NamedTuple):
    """How long a run will take; seconds: None where nothing is recorded that says so. machine: the class of the
    hardware that the record is of."""

    seconds: float | None = None
    by: str = UNKNOWN
    machine: str | None = None


class What(NamedTuple):
    """What the duration of a run depends on, planned or finished; iterations: of one that trains; device: of a modelled
    testbed."""

    experiment: tuple[Any, ...]  # paper and name
    variant: tuple[Any, ...]
    kind: str
    key: str
    scale: str
    iterations: float | None
    device: str = ""
    time_factor: float = 1.0  # wall seconds of one on the run's own clock

    @classmethod
    def planned(cls, run: Run) -> What:
        config, plain = run.config, run.config.plain()
        variant = (run.variant, run.testbed, config.model.name)
        place = (config.paper, config.experiment)
        device = _device(plain["testbed"])
        factor = config.testbed.time_factor
        return cls(place, variant, kinds.of_config(plain), run.key, config.scale, run.iterations, device, factor)

    @classmethod
    def finished(cls, record: Record) -> What:
        own, result = record.identity, record.result
        variant = (own.variant, own.testbed.name, own.model.name if own.model else None)
        iterations = result.iterations if isinstance(result, TrainResult) else None
        device = _device(own.testbed.options)
        return cls((own.paper, own.experiment), variant, record.kind, record.key, own.scale, iterations, device)

    @property
    def workload(self) -> tuple[Any, ...]:
        """What is run, on whichever testbed with this device."""
        variant, _, model = self.variant
        return (self.experiment, variant, model, self.device)

    def same(self, other: What) -> bool:
        """Whether a run of the same variant takes as long."""
        return self.key == other.key or self.scale == other.scale

    def share(self, other: What) -> float:
        """This one's iterations in those of another run of the variant."""
        return self.iterations / other.iterations if self.iterations and other.iterations else 1.0


def _device(testbed: Mapping[str, Any]) -> str:
    return json.dumps(testbed.get("device"), sort_keys=True)


class Duration(NamedTuple):
    """How long a finished run took, and what of that were iterations."""

    what: What
    seconds: float
    working_s: float
    machine: str | None
    train_s: float | None = None  # on the run's own clock


def duration(record: Record) -> Duration | None:
    """None of a run that does not say when it began and ended."""
    ends = [record.provenance.get(name) for name in ("started_at", "finished_at")]
    try:
        began, ended = (datetime.fromisoformat(end) for end in ends)  # type: ignore[arg-type]
        took = max((ended - began).total_seconds(), LEAST_S)
    except (TypeError, ValueError):  # of records from elsewhere
        return None
    working = min(record.wall.get("total_s", 0.0), took)
    train_s = record.result.final.get("train_s") if isinstance(record.result, TrainResult) else None
    return Duration(What.finished(record), took, working, record.hardware.class_, train_s)


class Forecast:
    """Estimates from records, which come in the order in which they finished: the latest count most."""

    def __init__(self, records: Iterable[Duration]):
        self._of_variant: dict[tuple[Any, ...], list[Duration]] = {}
        self._like: dict[tuple[Any, ...], list[Duration]] = {}
        self._simulated: dict[tuple[Any, ...], Duration] = {}
        for each in records:
            if each.what.kind == kinds.SIMULATED:
                self._simulated[each.what.workload] = each
            self._of_variant.setdefault((each.what.experiment, each.what.variant), []).append(each)
            self._like.setdefault((each.what.experiment, each.what.kind), []).append(each)

    def of(self, what: What) -> Estimate:
        """By the latest record of the same run; else by those of its variant at other sizes, for its part of their
        iterations; an emulated one by its simulation, which moves as many bytes; else by the experiment's runs of that
        kind."""
        own = self._of_variant.get((what.experiment, what.variant), [])
        if same := [each for each in own if what.same(each.what)]:
            return Estimate(same[-1].seconds, SAME, same[-1].machine)
        if own:
            last = own[-1]
            rest = last.seconds - last.working_s
            return Estimate(rest + what.share(last.what) * last.working_s, SIZE, last.machine)
        twin = self._simulated.get(what.workload) if what.kind == kinds.EMULATED else None
        if twin and twin.train_s:
            return Estimate(what.time_factor * what.share(twin.what) * twin.train_s, SLOWED, twin.machine)
        if like := self._like.get((what.experiment, what.kind)):
            return Estimate(median(each.seconds for each in like), LIKE, like[-1].machine)
        return Estimate()


def estimates(runs: Sequence[Run], finished: Sequence[Found]) -> list[Estimate]:
    """How long each run will take: by the workspace where that has the same one, else by all there is."""
    by_end = sorted(finished, key=lambda found: str(found.record.provenance.get("finished_at")))
    known = [(found.origin, each) for found in by_end if (each := duration(found.record))]
    own = Forecast(each for origin, each in known if origin != REFERENCE)
    every = Forecast(each for _, each in known)
    found = []
    for run in runs:
        what = What.planned(run)
        first = own.of(what)
        found.append(first if first.by == SAME else every.of(what))
    return found


def pace(took: float, expected: float) -> float:
    """What to multiply expectations with, after so many seconds of which so many were expected; few change little."""
    return (took + STEADY_S) / (expected + STEADY_S)


class Expected(NamedTuple):
    """What runs will take together, on the wall; how many of them are known by what, and on which machines."""

    seconds: float
    by: Counter[str]
    machines: Counter[str]


def together(runs: Sequence[Run], each: Sequence[Estimate], cores: int) -> Expected:
    """Measured runs go one by one, simulated ones side by side, one a core. One of which nothing is known counts as
    the median of the others of its kind, or not at all."""
    alone, beside = ([e.seconds for run, e in zip(runs, each) if run.simulated == simulated] for simulated in (0, 1))
    machines = Counter(estimate.machine for estimate in each if estimate.machine)
    seconds = sum(filled(alone)) + side_by_side(filled(beside), cores)
    return Expected(seconds, Counter(estimate.by for estimate in each), machines)


def filled(times: Sequence[float | None]) -> list[float]:
    known = [each for each in times if each is not None]
    return [each if each is not None else median(known or [0.0]) for each in times]


def side_by_side(times: Sequence[float], cores: int) -> float:
    """Seconds that runs take on so many cores, of which none is divided."""
    return max(sum(times) / max(cores, 1), *times) if times else 0.0
