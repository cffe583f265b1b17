"""Unfinished runs: trainings that were cut off, with their curve so far. They have no result and are never judged.

A run's folder has `unfinished.json`, written before its ranks start, until it has a summary. Iteration, curve and
attempts are read from the event log, so a killed run has them too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from repro.core import safe_files, user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.fields import error_line
from repro.core.paths import EVENTS_FILE, RECORD_FILE
from repro.core.terminal import warn
from repro.records import kinds, provenance, variants
from repro.records.configured import Folder, Number
from repro.records.events import end_in, read_events
from repro.records.identity import Identity, Part

FILE = "unfinished.json"
POINT = ("iteration", "epoch", "train_s", "loss", "test_loss")  # entries of a curve beside the scores
NO_SCORES = ("event", "wall_s", *POINT)  # of an evaluation


class Attempt(Part):
    """What computed the iterations after `iteration`, up to the next attempt's."""

    iteration: int
    key: str | None = None  # the run's under that code
    commit: str | None = None
    dirty: bool | None = None
    torch: str | None = None
    hardware: str | None = None  # its class


class Unfinished(Part):
    """A training that was cut off; resume_key: of the runs that may continue it (`repro.experiment.key`)."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    run: Folder  # the name of its folder
    key: str
    resume_key: str
    kind: kinds.Kind
    identity: Identity
    hardware: dict[str, Any]  # as in a record; empty for a run that was not identified
    ranks: int
    iterations: int  # of the whole training
    iteration: int = 0  # the last one that the log contains
    curve: list[dict[str, Number | None]] = Field(default_factory=list)
    attempts: list[Attempt] = Field(default_factory=list)
    state: Literal["cut off", "failed", "diverged"] = "cut off"
    reason: str | None = None  # why it failed or diverged

    @property
    def name(self) -> str:
        """`<experiment>/<run>`"""
        return f"{self.identity.experiment}/{self.run}"

    @property
    def clean(self) -> bool:
        """Whether all of it was computed by committed code."""
        return provenance.clean([attempt.model_dump() for attempt in self.attempts])

    def plain(self) -> dict[str, Any]:
        """As plain data, as in a file."""
        return {**self.model_dump(mode="json", by_alias=True), "identity": self.identity.plain()}

    def until(self, events: Sequence[dict[str, Any]], iteration: int | None = None) -> Unfinished:
        """This run as its events say, up to an iteration, that of a checkpoint; None: the last one in the log."""
        if iteration is None:
            iteration = max((event["iteration"] for event in events if event["event"] == "steps"), default=0)
        kept = [event for event in events if (event.get("iteration") or 0) <= iteration]
        made = {"iteration": iteration, "curve": curve(kept, self.identity.metric), "attempts": attempts(kept)}
        end = end_in(events) or {"event": "cut off", "reason": None}
        made |= {"state": end["event"], "reason": end["reason"]}
        return Unfinished.of(self.plain() | made)

    @classmethod
    def of(cls, plain: Any) -> Unfinished:
        """From plain data; ValueError with one line that names the invalid entry."""
        try:
            return cls.model_validate(plain)
        except ValidationError as error:
            raise ValueError(error_line(error)) from None


def begin(folder: Path, run: Unfinished) -> None:
    """Mark a run as unfinished; `end` removes the mark."""
    write_atomically(folder / FILE, json.dumps(run.plain(), sort_keys=True, allow_nan=False) + "\n")


def end(folder: Path) -> None:
    safe_files.remove_safely(folder / FILE)


def read(folder: Path) -> Unfinished | None:
    """The unfinished run of a folder; None if the run finished or never began, and with a warning if its files are
    invalid."""
    if (folder / RECORD_FILE).is_file() or not (folder / FILE).is_file():
        return None
    try:
        started = Unfinished.of(user_files.parse_json(safe_files.read_safely(folder / FILE)))
        return started.until(read_events(folder / EVENTS_FILE))
    except (OSError, ValueError, KeyError, TypeError, InputError) as error:
        warn(f"{folder / FILE}: not a readable unfinished run ({error}); left out")
        return None


def row(run: Unfinished) -> dict[str, Any]:
    """A run as a row of a table: what it is, and how far it came."""
    identity, last = run.identity, run.curve[-1] if run.curve else {}
    made: dict[str, Any] = {
        "run": run.name,
        "experiment": identity.experiment,
        "variant": variants.label(identity),
        "testbed": identity.testbed.name,
    }
    made |= {"kind": run.kind, "workers": identity.workers, "seed": identity.seed, "scale": identity.scale}
    made |= {"iteration": run.iteration, "iterations": run.iterations, "epoch": last.get("epoch")}
    made |= {"metric": identity.metric, "so_far": last.get(identity.metric)}
    made |= {"state": run.state, "reason": run.reason}
    return made | {"hardware": str(run.hardware.get("class")), "resume_key": run.resume_key}


def curve(events: Sequence[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """The evaluations, with the scores that any of them has."""
    evaluations = [event for event in events if event["event"] == "evaluation"]
    names = (*POINT, metric, *other_scores(evaluations, metric))
    return [{name: event.get(name) for name in names} for event in evaluations]


def other_scores(evaluations: Sequence[dict[str, Any]], metric: str) -> list[str]:
    """The scores that were evaluated beside the metric."""
    return [*dict.fromkeys(name for event in evaluations for name in event if name not in (*NO_SCORES, metric))]


def attempts(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attempts that computed the iterations in the log: consecutive ones by the same code, torch and hardware
    count as one, and one that ended before its first checkpoint not at all."""
    names = [name for name in Attempt.model_fields if name != "iteration"]
    last = {e["iteration"]: {name: e.get(name) for name in names} for e in events if e["event"] == "attempt"}
    made: list[dict[str, Any]] = []
    for iteration, by in sorted(last.items()):
        if not made or made[-1] != {"iteration": made[-1]["iteration"]} | by:
            made.append({"iteration": iteration} | by)
    return made
