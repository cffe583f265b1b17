"""Records of runs that nobody made, by the entries of a flat summary (`repro.records.flat`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.experiment.run import Run
from repro.records import migrate, store
from repro.records.flat import flat
from repro.records.identity import Identity
from repro.records.record import Record


def record_of(summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Record:
    """config: what was configured besides what the summary says."""
    return Record.of(migrate.record({**summary, "schema": 1}, config))


def write_summary(folder: Path, summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> None:
    store.write(folder, record_of(summary, config))


def read_summary(folder: Path) -> dict[str, Any] | None:
    record = store.read(folder)
    return record and flat(record)


def summaries(text: str) -> list[dict[str, Any]]:
    """What `repro run --json` prints."""
    return [flat(Record.of(each)) for each in json.loads(text)]


def finished(run: Run, **changes: Any) -> Record:
    """A record of a planned run that trained, with other values: of its identity by their names, of a flat summary."""
    from tests.reports.data.summaries import make

    own = {name: changes.pop(name) for name in Identity.model_fields.keys() & changes.keys()}
    identity = run.config.identity.plain() | own
    made = record_of(make("D-Sync", **({"key": run.key} | changes))).plain()
    return Record.of(made | {"identity": identity, "kind": identity["testbed"]["kind"]})
