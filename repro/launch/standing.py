"""How an experiment stands: which of its runs are done, stale or missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from repro.experiment.run import Run
from repro.records.catalogue import Found


class Standing(NamedTuple):
    """Numbers of runs. `done`: there is a finished one with the key that it would have now, in the workspace or the
    reference. `stale`: there are finished ones of that variant, testbed, seed and scale, all of them of another key:
    code, configuration, data, torch or hardware are not the same. `missing`: there is none."""

    done: int = 0
    stale: int = 0
    missing: int = 0

    def __str__(self) -> str:
        return f"{self.done} done, {self.stale} stale, {self.missing} missing"


def standing(runs: Iterable[Run], finished: Sequence[Found]) -> Standing:
    """How runs with keys (`repro.launch.runs`; one without is not done) stand among the finished ones of their
    papers."""
    found = states(runs, finished)
    return Standing(*(found.count(state) for state in Standing._fields))


def states(runs: Iterable[Run], finished: Sequence[Found]) -> list[str]:
    """Which of `Standing` each run is."""
    keys = {found.summary.get("key") for found in finished}
    known = {_place(found.summary) for found in finished}
    return [_state(run, keys, known) for run in runs]


def together(parts: Iterable[Standing]) -> Standing:
    return Standing(*map(sum, zip(*[Standing(), *parts])))


def _state(run: Run, keys: set[Any], known: set[tuple]) -> str:
    if run.key and run.key in keys:
        return "done"
    config = run.config
    place = (config.paper, config.figure, run.variant, run.testbed, run.seed, config.scale, config.breakdown)
    return "stale" if place in known else "missing"


def _place(summary: dict[str, Any]) -> tuple:
    names = ("paper", "experiment", "setting", "testbed", "seed", "scale")
    return (*(summary.get(name) for name in names), bool(summary.get("breakdown")))
