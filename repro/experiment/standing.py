"""How an experiment stands: which of its runs are done, stale or missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from repro.experiment.run import Run
from repro.records import catalogue, identity
from repro.records.catalogue import Found


class Standing(NamedTuple):
    """Numbers of runs. `done`: there is a finished one with the key that it would have now, in the workspace or the
    reference. `stale`: there are finished ones of that variant, testbed, seed, scale and configuration
    (`repro.records.identity`), all of them of another key: code, data, torch or hardware are not the same. `missing`:
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
    keys = {found.summary.get("key") for found in finished}
    known: dict[tuple[Any, ...], list[Found]] = {}
    for found in finished:
        known.setdefault(_place(found.summary), []).append(found)
    return [_state(run, keys, known) for run in runs]


def together(parts: Iterable[Standing]) -> Standing:
    return Standing(*map(sum, zip(*[Standing(), *parts])))


def _state(run: Run, keys: set[Any], known: Mapping[tuple[Any, ...], Sequence[Found]]) -> str:
    if run.key and run.key in keys:
        return "done"
    config = run.config
    place = (config.paper, config.experiment, run.variant, run.testbed, run.seed, config.scale, config.breakdown)
    if not (there := known.get(place)):
        return "missing"
    configurations = [catalogue.configuration(found) for found in there]
    others = [identity.of(found.summary, config_of) for found, config_of in zip(there, configurations, strict=True)]
    planned, *others = identity.completed([identity.of({}, config.plain()), *others])
    same = (
        identity.digest(planned) == identity.digest(other) if config_of else identity.agree(planned, other)
        for other, config_of in zip(others, configurations, strict=True)
    )
    return "stale" if any(same) else "missing"


def _place(summary: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("paper", "experiment", "variant", "testbed", "seed", "scale")
    return (*(summary.get(name) for name in names), bool(summary.get("breakdown")))
