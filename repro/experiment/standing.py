"""The state of an experiment's runs: done, stale or missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from repro.experiment.run import Run
from repro.records import variants
from repro.records.catalogue import Found


class Standing(NamedTuple):
    """Numbers of runs.

    done     workspace or reference has a finished run with the key that the run would have now
    stale    they have one of the same variant, testbed, seed, scale and configuration (`repro.records.variants`), but
             code, data, torch or hardware have changed
    missing  they have none
    """

    done: int = 0
    stale: int = 0
    missing: int = 0

    def __str__(self) -> str:
        return f"{self.done} done, {self.stale} stale, {self.missing} missing"


def standing(runs: Iterable[Run], finished: Sequence[Found]) -> Standing:
    """Count the states of runs with keys (`repro.experiment.key`); a run without a key is not done."""
    every = states(runs, finished)
    return Standing(*(every.count(state) for state in Standing._fields))


def states(runs: Iterable[Run], finished: Sequence[Found]) -> list[str]:
    """The state of each run, a field of `Standing`. finished: the finished runs of the runs' papers."""
    keys = {each.record.key for each in finished}
    by_place: dict[tuple[Any, ...], list[Found]] = {}
    for each in finished:
        by_place.setdefault(variants.place_and_seed(each), []).append(each)
    return [_state(run, keys, by_place) for run in runs]


def total(parts: Iterable[Standing]) -> Standing:
    """The sum of standings."""
    return Standing(*map(sum, zip(*[Standing(), *parts])))


def _state(run: Run, keys: set[Any], by_place: Mapping[tuple[Any, ...], Sequence[Found]]) -> str:
    if run.key and run.key in keys:
        return "done"
    similar = by_place.get(variants.place_and_seed(run.config), [])
    return "stale" if any(variants.alike(run.config.identity, each.identity) for each in similar) else "missing"
