"""Builders of records for tests, from a summary: the entries of identity and result side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from repro.core.registry import TRAIN
from repro.experiment.run import Run
from repro.records import kinds, store
from repro.records.identity import Identity
from repro.records.record import SCHEMA, Found, ProbeResult, Record, TrainResult
from repro.records.variants import WORKSPACE

OF_SUMMARY = ("paper", "experiment", "variant", "factors", "program", "breakdown", "scale", "seed", "batch")


def record_of(summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Record:
    """config: configured values that the summary does not have."""
    return Record.of(plain_of(summary, config))


def found_of(summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Found:
    """A finished run of the workspace, or of the summary's `root`."""
    return Found(summary.get("root", WORKSPACE), record_of(summary, config))


def plain_of(summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The record as plain data, without validation."""
    config, model, modelled = config or {}, summary.get("model") or {}, summary.get("testbed_model")
    kind = summary["kind"] if modelled or summary["kind"] == kinds.SIMULATED else kinds.MEASURED
    testbed = {"kind": kind} | (modelled or config.get("testbed") or {}) | {"name": summary["testbed"]}
    name, of_model = {"name": summary["strategy"]}, {"name": model.get("name")}
    identity = _entries(summary, Identity) | {
        "strategy": name | summary.get("options", {}), "model": of_model if model.get("name") else None,
        "dataset": None, "targets": list(map(float, summary.get("targets") or {})),
    } | _entries(config, Identity, *OF_SUMMARY)  # fmt: skip
    identity["testbed"] = testbed | {name: summary[name] for name in ("launcher",) if name in summary}
    if identity.get("program", TRAIN) == TRAIN:
        result = _entries(summary, TrainResult) | {"parameters": model.get("parameters")}
    else:
        result = _entries(summary, ProbeResult) | {"found": summary["result"]}
    return _entries(summary, Record) | {"schema": SCHEMA, "identity": identity, "result": result}


def _entries(summary: Mapping[str, Any], form: type[BaseModel], *but: str) -> dict[str, Any]:
    """The entries of a mapping that are fields of a part of a record."""
    return {name: value for name, value in summary.items() if name in form.model_fields and name not in but}


def write_summary(folder: Path, summary: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> None:
    store.write(folder, record_of(summary, config))


def summary_of(record: Record) -> dict[str, Any]:
    """The record's entries side by side, for assertions: plugins are names, the strategy's options beside them."""
    plain = record.plain()
    identity, result = plain.pop("identity"), plain.pop("result")
    if not record.trained:
        result["result"] = result.pop("found")
    else:
        result["model"] = {"parameters": result.pop("parameters")} | (identity["model"] or {})
    testbed, strategy = record.identity.testbed, record.identity.strategy
    names = {
        "strategy": strategy.name,
        "options": strategy.options,
        "testbed": testbed.name,
        "launcher": testbed.launcher,
    }
    return identity | plain | names | result | {"identity": record.identity}


def read_summary(folder: Path) -> dict[str, Any] | None:
    record = store.read(folder)
    return record and summary_of(record)


def summaries(text: str) -> list[dict[str, Any]]:
    """The summaries in the output of `repro run --json`."""
    return [summary_of(Record.of(each)) for each in json.loads(text)]


def finished(run: Run, **changes: Any) -> Record:
    """A record of a planned training run; changes: entries of its identity, or of a flat summary."""
    from tests.reports.data.summaries import make

    own = {name: changes.pop(name) for name in Identity.model_fields.keys() & changes.keys()}
    identity = run.config.identity.plain() | own
    made = record_of(make("D-Sync", **({"key": run.key} | changes))).plain()
    return Record.of(made | {"identity": identity, "kind": identity["testbed"]["kind"]})
