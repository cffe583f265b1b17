"""A run to send: from its folder, or from its record in the reference."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from repro.answers.mlflow.machine import SAMPLES
from repro.core import safe_files
from repro.core.errors import InputError
from repro.core.fields import error_line
from repro.core.paths import CONFIG_FILE, EVENTS_FILE, RECORD_FILE
from repro.experiment.files import read_resolved, yaml_of
from repro.records import kinds, store
from repro.records.events import end_in, read_events, warnings_in
from repro.records.identity import Identity
from repro.records.record import Record, TrainResult

FILES = (RECORD_FILE, CONFIG_FILE, EVENTS_FILE, SAMPLES, "trace.rank*.json")  # traces: `profile_steps`


@dataclass(frozen=True)
class Source:
    """evaluations: its curve; digest: of all content; record: of a finished run; failure: why a run failed; warnings:
    why its numbers may be wrong; folder: None for a run of the reference."""

    identity: Identity
    key: str
    run: str
    folder: Path | None
    evaluations: list[dict[str, Any]]
    digest: str
    record: Record | None = None
    failure: str | None = None
    warnings: str | None = None

    @property
    def kind(self) -> str:
        return self.record.kind if self.record else kinds.of_config(self.identity.plain())

    @property
    def provenance(self) -> dict[str, Any]:
        return self.record.provenance if self.record else {}

    @property
    def status(self) -> str:
        return "FINISHED" if self.record else "FAILED" if self.failure else "KILLED"

    def copy_files(self, target: Path) -> None:
        """Copy the run's files to a folder, because MLflow would follow links; of the reference, write them."""
        if self.folder:
            for path in (path for pattern in FILES for path in self.folder.glob(pattern)):
                with safe_files.open_file(path) as file, open(target / path.name, "xb") as copy:
                    shutil.copyfileobj(file, copy)
        elif self.record:
            # on one line, which MLflow's page unfolds: indenting takes as long as sending the run
            (target / RECORD_FILE).write_text(json.dumps(self.record.plain(), sort_keys=True), encoding="utf-8")
            (target / CONFIG_FILE).write_text(yaml_of(self.identity.plain()), encoding="utf-8")


def of_folder(folder: Path) -> Source | None:
    """The run in the folder `<paper>/<experiment>/<run>`; None without a complete first event or a configuration."""
    record, events = store.read(folder), read_events(folder / EVENTS_FILE)
    evaluations = [event for event in events if event["event"] == "evaluation"]
    if record:
        return of_record(record, folder, evaluations if events else None)
    path = folder / CONFIG_FILE
    config = read_resolved(path) if path.is_file() else {}
    started = [event for event in events if event["event"] == "run_start"]
    if not config or "key" not in (begun := started[-1] if started else config):
        return None
    try:
        identity = Identity.model_validate({name: config[name] for name in Identity.model_fields if name in config})
    except ValidationError as error:
        raise InputError(f"{path}: not a run's configuration ({error_line(error)})") from None
    failure = str(end["reason"]) if (end := end_in(events)) else None
    digest = _digest(safe_files.read_safely(folder / EVENTS_FILE) if events else b"")
    warnings = "; ".join(warnings_in(events)) or None
    return Source(identity, begun["key"], folder.name, folder, evaluations, digest, None, failure, warnings)


def of_record(record: Record, folder: Path | None = None, evaluations: list[dict[str, Any]] | None = None) -> Source:
    """A finished run. evaluations: default: those of the record."""
    if evaluations is None:
        evaluations = record.result.curve if isinstance(record.result, TrainResult) else []
    digest = _digest(json.dumps(record.plain(), sort_keys=True).encode())
    of_run = record.identity, record.key, record.run, folder, evaluations, digest
    return Source(*of_run, record, warnings=record.warning_text)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
