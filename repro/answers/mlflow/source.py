"""What there is to mirror of a run: what its folder holds, or its record in the reference."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from repro.core import safe_files
from repro.experiment.files import read_yaml
from repro.records import store
from repro.records.events import read_events
from repro.records.flat import flat
from repro.records.identity import Identity
from repro.records.record import Record

ENDS = ("failed", "diverged")  # events


class Source(NamedTuple):
    """record: what is known of the run without levels, and its configuration as `config`; evaluations: its curve;
    failure: why there is no summary; digest: stands for all of it."""

    record: dict[str, Any]
    folder: Path
    evaluations: list[dict[str, Any]]
    summary: dict[str, Any] | None
    failure: str | None
    digest: str

    @property
    def status(self) -> str:
        return "FINISHED" if self.summary else "FAILED" if self.failure else "KILLED"

    @property
    def ended_at(self) -> str | None:
        return (self.summary or {}).get("provenance", {}).get("finished_at")


def of_folder(folder: Path) -> Source | None:
    """Of the folder `<paper>/<experiment>/<run>`; None where it holds no run yet, only a torn first line perhaps."""
    finished, events = store.read(folder), read_events(folder / "events.jsonl")
    summary = flat(finished) if finished else None
    path = folder / "config.yaml"
    whole = read_yaml(path) if path.is_file() else {}
    config = {name: whole[name] for name in Identity.model_fields if name in whole}
    if finished:
        config = finished.identity.plain()
    record: dict[str, Any] = dict(zip(("paper", "experiment", "run"), folder.parts[-3:]))
    started = [event for event in events if event["event"] == "run_start"]
    record |= {"config": config} | whole | (started[-1] if started else {}) | (summary or {})
    if "key" not in record:
        return None
    evaluations = [event for event in events if event["event"] == "evaluation"]
    if summary and not events:
        evaluations = summary.get("curve", [])
    reasons = [str(event["reason"]) for event in events[-1:] if event["event"] in ENDS and not finished]
    return Source(record, folder, evaluations, summary, next(iter(reasons), None), _digest(folder, summary))


def of_record(run: Record, folder: Path) -> Source:
    """Of a record that has no folder of its own; folder: with the files to mirror."""
    config, summary = run.identity.plain(), flat(run)
    record = {"config": config} | config | summary
    return Source(record, folder, summary.get("curve", []), summary, None, digest(summary))


def digest(summary: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(summary, sort_keys=True).encode()).hexdigest()[:16]


def _digest(folder: Path, summary: dict[str, Any] | None) -> str:
    if summary:
        return digest(summary)
    try:
        events = safe_files.read(folder / "events.jsonl")
    except FileNotFoundError:
        events = b""
    return hashlib.sha256(events).hexdigest()[:16]
