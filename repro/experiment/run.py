"""A run of an experiment: its configuration, key, names and folder; whether it is finished, and how many of several
are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from repro.core.errors import InputError
from repro.core.paths import EVENTS_FILE
from repro.experiment.schema import RunConfig
from repro.records import catalogue, provenance, store, sweep, variants
from repro.records.events import end_in, read_events, warnings_in
from repro.records.record import Found


@dataclass
class Run:
    """A resolved configuration with a variant's name and a seed.

    `repro.experiment.identify` sets `key`, `resume_key`, `hardware`, a training's `iterations`, `parts`
    (`versions.versions_of`), `edited` (`versions.edited_parts`) and `users_code`: plugin that is a user's own file ->
    digest of its code. `expand` sets `ranks`.
    """

    experiment: str
    variant: str
    config: RunConfig
    seed: int
    key: str = ""
    hardware: dict[str, Any] = field(default_factory=dict)
    iterations: float | None = None
    ranks: int | None = None
    users_code: dict[str, str] = field(default_factory=dict)
    resume_key: str = ""
    parts: dict[str, int | str] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Plain data for `of_plain`."""
        return vars(self) | {"config": self.config.plain()}

    @classmethod
    def of_plain(cls, value: dict[str, Any]) -> Run:
        """The run of `plain`; its plugins are not imported, and their options stay plain data."""
        return cls(**value | {"config": RunConfig.of_plain(value["config"])})

    def made_by(self) -> dict[str, Any]:
        """The provenance in the run's record (`repro.records.provenance`)."""
        made = provenance.provenance() | {"parts": self.parts}
        made |= {"resume_key": self.resume_key} if self.resume_key else {}
        return made | ({"users_code": self.users_code} if self.users_code else {})

    @property
    def testbed(self) -> str:
        return self.config.testbed.name

    @property
    def simulated(self) -> bool:
        return self.config.simulated

    @property
    def name(self) -> str:
        variant, testbed = (re.sub(r"[^a-z0-9]+", "-", x.lower()).strip("-") for x in (self.variant, self.testbed))
        breakdown = "-breakdown" if self.config.breakdown else ""
        return f"{variant}-{testbed}-seed{self.seed}{breakdown}-{self.key[:8]}"

    @property
    def label(self) -> str:
        """For people: variant, testbed, seed."""
        breakdown = " · breakdown" if self.config.breakdown else ""
        return f"{self.variant} · {self.testbed} · seed {self.seed}{breakdown}"

    @property
    def title(self) -> str:
        """The label with the experiment's name, unique among the runs of several experiments."""
        return f"{self.experiment} · {self.label}"

    @property
    def folder(self) -> Path:
        return store.run_dir(self.config.paper, self.config.experiment, self.name)

    @property
    def finished(self) -> bool:
        """Whether this run finished in this workspace; a summary without events was copied from elsewhere."""
        if self.config.draws:
            drawn = sweep.read(self.folder)
            return drawn is not None and drawn.key == self.key and len(drawn.draws) >= self.config.draws
        if not (self.folder / EVENTS_FILE).is_file():
            return False
        record = store.usable_record(self.folder)
        return record is not None and record.key == self.key

    @property
    def diverged(self) -> str | None:
        """Why this run diverged, and would again; None if it did not."""
        end = end_in(self._events())
        return end["reason"] if end and end["event"] == "diverged" and end["key"] == self.key else None

    @property
    def warnings(self) -> list[str]:
        """What was noticed while it ran."""
        return warnings_in(self._events())

    def _events(self) -> list[dict[str, Any]]:
        events = self.folder / EVENTS_FILE
        try:
            return read_events(events) if events.is_file() else []
        except InputError:
            return []  # resuming the run repairs a damaged log


class State(NamedTuple):
    """The state of a run: a field of `Standing`; reason: why a stale run is stale."""

    name: str
    reason: str = ""


class Standing(NamedTuple):
    """Numbers of runs.

    done     workspace or reference has a finished run with the key that the run would have now
    stale    they have one of the same variant, testbed, seed, scale and configuration (`repro.records.variants`), but
             code, data, torch or hardware have changed
    missing  they have none
    diverged  in the workspace; run again only if forced
    """

    done: int = 0
    stale: int = 0
    missing: int = 0
    diverged: int = 0

    @classmethod
    def of(cls, states: Iterable[State]) -> Standing:
        count = Counter(state.name for state in states)
        return cls(*(count[name] for name in cls._fields))

    def __str__(self) -> str:
        diverged = f", {self.diverged} diverged" if self.diverged else ""
        return f"{self.done} done, {self.stale} stale, {self.missing} missing{diverged}"


def count_states(runs: Iterable[Run], finished: Sequence[Found]) -> Standing:
    """Count the states of runs with keys (`repro.experiment.key`), as diverged those that did here; a run without a key
    is not done."""
    every = [*runs]
    states = zip(every, run_states(every, finished), strict=True)
    return Standing.of(
        State("diverged") if state.name != "done" and run.key and run.diverged else state for run, state in states
    )


def finished_like(runs: Iterable[Run]) -> list[Found]:
    """The finished runs of the experiments of these runs."""
    experiments: dict[str, set[str]] = {}
    for run in runs:
        experiments.setdefault(run.config.paper, set()).add(run.config.experiment)
    return [each for paper, names in experiments.items() for each in catalogue.runs(paper, experiments=names)]


def run_states(runs: Iterable[Run], finished: Sequence[Found]) -> list[State]:
    """The state of each run. finished: those of `finished_like`."""
    keys = {each.record.key for each in finished}
    by_place: dict[tuple[Any, ...], list[Found]] = {}
    for each in finished:
        by_place.setdefault(variants.place_and_seed(each), []).append(each)
    return [_state(run, keys, by_place) for run in runs]


def add_standings(parts: Iterable[Standing]) -> Standing:
    """The sum of standings."""
    return Standing(*map(sum, zip(*[Standing(), *parts])))


def _state(run: Run, keys: set[Any], by_place: Mapping[tuple[Any, ...], Sequence[Found]]) -> State:
    if run.key and run.key in keys:
        return State("done")
    similar = by_place.get(variants.place_and_seed(run.config), [])
    stale = [each for each in similar if variants.alike(run.config.identity, each.identity)]
    return State("stale", _why_stale(run, stale[-1])) if stale else State("missing")


def _why_stale(run: Run, old: Found) -> str:
    """What the key of an older run of the same configuration holds that is another now (`repro.experiment.key`)."""
    made, here = old.record.hardware.class_, run.hardware.get("class")
    if not run.config.portable and made != here:
        return f"made on {made}, this machine is {here}"
    torch = (old.provenance.get("versions") or {}).get("torch")
    if not run.config.portable and torch != (now := metadata.version("torch")):
        return f"made with torch {torch}, here is {now}"
    parts = old.provenance.get("parts") or {}
    if changed := [part for part, version in run.parts.items() if parts.get(part, version) != version]:
        return f"made with another version of {', '.join(changed)}"
    return "made with other data or code"
