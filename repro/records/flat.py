"""A typed record as one flat mapping, for tables, pages, goals and fault tests: plugins are names, options beside them.

Pages change entries of it (escaped text, a draw's times, a page's name of an experiment), which a frozen record cannot.
"""

from __future__ import annotations

from typing import Any

from repro.records import variants
from repro.records.configured import Configured
from repro.records.identity import Part
from repro.records.record import Record, TrainResult

OF_TRAINING = ("epochs", "eval_every", "metric", "optimizer", "accumulate")
OTHERWISE = ("probe", "model", "dataset", "testbed", "strategy", "imbalance", "numerics", "targets")  # not as they are
OF_RESULT = tuple(name for name in TrainResult.model_fields if name != "parameters")  # which the model has


def flat(record: Record) -> dict[str, Any]:
    """The entries of a record's identity and result side by side; a missing entry is None or empty."""
    identity, result, testbed = record.identity, record.result, record.identity.testbed
    left_out = OTHERWISE if identity.trains else (*OTHERWISE, *OF_TRAINING)
    made: dict[str, Any] = {name: getattr(identity, name) for name in Configured.model_fields if name not in left_out}
    made |= {"identity": identity, "variant": variants.label(identity), "variant_name": identity.variant}
    made |= {"status": "finished", "key": record.key, "run": record.run, "kind": record.kind, "fabric": record.fabric}
    made |= {"ranks": record.ranks, "provenance": record.provenance, "wall": record.wall}
    made["cpu_taken_share"] = record.cpu_taken_share
    made |= {"strategy": identity.strategy.name, "options": identity.strategy.options}
    made["imbalance"] = identity.imbalance.model_dump()
    made["hardware"] = record.hardware.model_dump(by_alias=True, exclude_unset=True)
    made |= {"testbed": testbed.name, "launcher": testbed.launcher, "threads_per_rank": testbed.threads_per_rank}
    made["testbed_model"] = None if testbed.kind == "measured" else testbed.model_dump(exclude_unset=True)
    if identity.numerics:
        made["numerics"] = identity.numerics
    if not isinstance(result, TrainResult):
        probe = {"result": result.found, "metrics": result.metrics, "line": result.line, "model": result.model}
        return made | probe | ({"dataset": result.dataset.model_dump()} if result.dataset else {})
    made |= {name: _plain(getattr(result, name)) for name in OF_RESULT}
    made["model"] = {"parameters": result.parameters} | (identity.model.model_dump() if identity.model else {})
    return made


def _plain(value: Any) -> Any:
    """A part of a result, or several by name, as plain data."""
    if isinstance(value, Part):
        return value.model_dump()
    return {name: _plain(part) for name, part in value.items()} if isinstance(value, dict) else value
