"""Records of an older schema, brought to today's: one step a schema, each tested; a step never changes a number.

Schema 1 had a flat summary beside a configuration; it called a run `cell`, a variant `setting`, an experiment `figure`.
Schema 2 is `repro.records.record`: what was configured in `identity`, what was found in `result`.
`python -m repro.records.reference [FOLDER]` rewrites the tables of a reference in today's schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.core.registry import TRAIN
from repro.records import kinds

SCHEMA = 2
# of schema 1, what the identity takes from the configuration, else from the summary
CONFIGURED = (
    *("workers", "epochs", "accumulate", "optimizer", "numerics", "min_compute_s", "metric", "eval_every"),
    *("eval_train", "checkpoint_every", "breakdown_steps", "trace_steps", "device", "changed", "imbalance"),
)
OF_SUMMARY = (  # the batch: a probe may have taken all data
    *("paper", "experiment", "variant", "factors", "program", "breakdown", "scale", "seed", "batch"),
)
FOUND = (  # by a training
    *("iterations", "iterations_per_epoch", "dataset", "memory", "curve", "final", "targets", "step", "phases"),
    *("server_phases", "communication", "bytes_sent", "staleness", "counters", "pipeline", "per_rank", "allreduce"),
    *("observed", "weights_sha256", "trace"),
)
OF_RUN = ("run", "key", "fabric", "ranks", "hardware", "provenance", "wall")
VARIANTS = ("variants", "rows")  # of a probe's result: lists whose entries name a variant


def record(given: Any, config: Mapping[str, Any] | None = None) -> Any:
    """A record of any schema as today's has it. config: the resolved configuration of one of schema 1."""
    if not isinstance(given, dict):
        raise ValueError("not an object")
    if (schema := given.get("schema", 1)) not in (1, SCHEMA):
        raise ValueError(f"schema {str(schema)[:40]}, this version reads 1 to {SCHEMA}")
    return _second(given, config or {}) if schema == 1 else given


def _second(summary: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Schema 1 to 2."""
    summary = _renamed(summary, {"cell": "run", "setting": "variant"})
    config = _renamed(dict(config), {"figure": "experiment", "setting": "variant"})
    identity = _some(summary, CONFIGURED) | _some(config, CONFIGURED) | _some(summary, OF_SUMMARY)
    train = identity.setdefault("program", TRAIN) == TRAIN
    model, result = summary.get("model") or {}, summary.get("result")
    own = {"name": summary.get("strategy"), **(summary.get("options") or {})}
    identity["strategy"] = config.get("strategy") or own
    identity["testbed"] = testbed = _testbed(summary, config)
    own = {name: value for name, value in model.items() if name != "parameters"} if isinstance(model, dict) else {}
    identity["model"] = config.get("model") or (own if own.get("name") else None)
    identity["dataset"] = config.get("dataset")
    if testbed.get("arithmetic") == "none" and testbed.get("kind") != kinds.MEASURED:
        identity["numerics"] = {}  # nothing is computed
    targets = config.get("targets")
    identity["targets"] = list(map(_number, summary.get("targets") or {})) if targets is None else targets
    if train:
        found = _some(summary, FOUND)
        found |= {"parameters": model.get("parameters")} if isinstance(model, dict) else {}
        for name in ("phases", "server_phases"):  # the delays of an imbalance came later
            if isinstance(found.get(name), dict):
                found[name] = {"imbalance": 0.0} | found[name]
    else:
        identity["probe"] = config.get("probe")
        found = _some(summary, ("metrics", "line", "dataset", "model")) | {"found": _found(result)}
    computation = result.get("computation") if isinstance(result, dict) else None
    kind = summary.get("kind")
    if kind == kinds.MEASURED == testbed.get("kind"):  # of a time when kinds were those of testbeds
        kind = kinds.kind(kinds.MEASURED, computation, identity.get("min_compute_s"))
    return _some(summary, OF_RUN) | {"schema": 2, "kind": kind, "identity": identity, "result": found}


def _testbed(summary: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    modelled = summary.get("testbed_model")
    kind = summary.get("kind") if modelled or summary.get("kind") == kinds.SIMULATED else kinds.MEASURED
    found = {"kind": kind} | dict(modelled or config.get("testbed") or {})
    return found | {"name": summary.get("testbed")} | _some(summary, ("launcher",))


def _found(result: Any) -> Any:
    """What a probe found, whose entries name variants."""
    result = _renamed(result, {"settings": "variants"})
    if isinstance(result, dict):
        for name in VARIANTS:
            if isinstance(result.get(name), list):
                result[name] = [_renamed(row, {"setting": "variant"}) for row in result[name]]
    return result


def _some(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _renamed(old: Any, names: Mapping[str, str]) -> Any:
    return {names.get(name, name): value for name, value in old.items()} if isinstance(old, dict) else old


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
