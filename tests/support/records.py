"""Records of runs that nobody made, by the entries of a flat summary (`repro.records.flat`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.records import migrate, store
from repro.records.flat import flat
from repro.records.record import Record


def record_of(summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Record:
    """config: what was configured besides what the summary says."""
    return Record.of(migrate.record({**summary, "schema": 1}, config))


def write_summary(folder: Path, summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> None:
    store.write(folder, record_of(summary, config))


def read_summary(folder: Path) -> dict[str, Any] | None:
    record = store.read(folder)
    return record and flat(record)
