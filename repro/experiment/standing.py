"""How an experiment stands: which of its runs are done, stale or missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from repro.experiment.run import Run
from repro.records import variants
from repro.records.catalogue import Found
from repro.records.identity import Identity


class Standing(NamedTuple):
    """Numbers of runs. `done`: there is a finished one with the key that it would have now, in the workspace or the
    reference. `stale`: there are finished ones of that variant, testbed, seed, scale and configuration
    (`repro.records.variants`), all of them of another key: code, data, torch or hardware are not the same. `missing`:
    there is none."""

    done: int = 0
    stale: int = 0
    missing: int = 0

    def __str__(self) -> str:
        return f"{self.done} done, {self.stale} stale, {self.missing} missing"


def standing(runs: Iterable[Run], finished: Sequence[Found]) -> Standing:
    """How runs with keys (`repro.experiment.key`; one without is not done) stand among the finished ones of their
    papers."""
    found = states(runs, finished)
    return Standing(*(found.count(state) for state in Standing._fields))


def states(runs: Iterable[Run], finished: Sequence[Found]) -> list[str]:
    """Which of `Standing` each run is."""
    keys = {found.record.key for found in finished}
    known: dict[tuple[Any, ...], list[Found]] = {}
    for found in finished:
        known.setdefault(_place(found.record.identity), []).append(found)
    return [_state(run, keys, known) for run in runs]


def together(parts: Iterable[Standing]) -> Standing:
    return Standing(*map(sum, zip(*[Standing(), *parts])))


def _state(run: Run, keys: set[Any], known: Mapping[tuple[Any, ...], Sequence[Found]]) -> str:
    if run.key and run.key in keys:
        return "done"
    planned = run.config.identity
    if not (there := known.get(_place(planned))):
        return "missing"
    own, *others = variants.completed([planned.values, *(found.record.identity.values for found in there)])
    return "stale" if variants.digest(own) in map(variants.digest, others) else "missing"


def _place(identity: Identity) -> tuple[Any, ...]:
    own = identity
    return own.paper, own.experiment, own.variant, own.testbed.name, own.seed, own.scale, own.breakdown
