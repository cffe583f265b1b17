"""The form of a summary, as `repro.records.store` describes it: what is a text, a number, a mapping of numbers.

Whether everything is there that a page needs is `repro.records.needed`: older summaries lack what came later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro.core import safe_files
from repro.records.migrate import SCHEMA

TEXTS = (
    *("status", "key", "run", "program", "paper", "experiment", "variant", "strategy", "kind", "testbed", "fabric"),
    *("launcher", "scale", "metric", "line", "weights_sha256"),
)
PLACE = ("paper", "experiment", "run")  # names of folders
COUNTS = ("schema", "workers", "ranks", "seed", "batch", "iterations", "iterations_per_epoch", "accumulate")
FLAGS = ("breakdown",)
# numbers, or mappings and lists of them, however deep; null where there is none
NUMBERS = (
    *("epochs", "eval_every", "min_compute_s", "curve", "final", "targets", "step", "phases", "server_phases"),
    *("communication", "bytes_sent", "staleness", "counters", "metrics", "wall"),
)
MAPPINGS = (
    *("factors", "options", "imbalance", "dataset", "model", "optimizer", "hardware", "provenance", "final", "targets"),
    *("step", "phases", "communication", "counters", "metrics", "wall", "result", "numerics"),
)
PERHAPS = ("memory", "testbed_model", "allreduce")  # a mapping, or null
SINGLE = ("epochs", "eval_every", "min_compute_s", "bytes_sent")  # of `NUMBERS` one, or null
SINGLES = ("final", "step", "communication")  # mappings of such
ROWS = ("curve", "trace", "per_rank", "staleness")  # lists of mappings
NAMES = {"dataset": "name", "model": "name", "imbalance": "name", "optimizer": "name", "hardware": "class"}
# what a name ends with whose value is in that unit, wherever it stands
UNITS = ("_s", "_s_per_byte", "bytes", "_Bps", "_gbit", "seconds")
# of a testbed, what is said of its numbers, by the same names: where they are from, how far they may be off, which
# claims they restate
NOT_VALUES = ("sources", "bounds", "claims", "implied")


def check(summary: Any) -> None:
    """ValueError naming the first entry that is not of its form; entries that nobody knows are left alone."""
    if not isinstance(summary, dict):
        raise ValueError("not an object")
    if (schema := summary.get("schema", SCHEMA)) != SCHEMA:
        raise ValueError(f"schema {str(schema)[:40]}, this version reads {SCHEMA}")
    for names, right, what in _KINDS:
        for name in names:
            if name in summary and not right(summary[name]):
                raise ValueError(f"{name} is not {what}: {str(summary[name])[:40]!r}")
    for name in PLACE:
        if name in summary and not safe_files.is_plain(summary[name]):
            raise ValueError(f"paper, experiment or run have no plain name: {name} is {summary[name][:40]!r}")
    for part, name in NAMES.items():
        if not isinstance(summary.get(part, {}).get(name), str | None):
            raise ValueError(f"{part}.{name} is not a text: {str(summary[part][name])[:40]!r}")
    _check_parts(summary)
    for row in summary.get("trace", ()):
        if not all(_is_number(row.get(name, 0.0)) for name in ("start", "end")):
            raise ValueError("a start or end in trace is not a number")
    _check_units(summary)


def _check_parts(summary: dict[str, Any]) -> None:
    """What stands within some parts, where one number must be."""
    singles = {f"{part}.{name}": value for part in SINGLES for name, value in summary.get(part, {}).items()}
    singles |= {"model.parameters": summary.get("model", {}).get("parameters")}
    for target, reached in summary.get("targets", {}).items():
        if reached is not None and not (isinstance(reached, dict) and "train_s" in reached):
            raise ValueError(f"targets.{target[:40]} is neither null nor seconds of training: {str(reached)[:40]!r}")
        singles |= {f"targets.{target}.{name}": value for name, value in (reached or {}).items()}
    for name, value in singles.items():
        if value is not None and not _is_number(value):
            raise ValueError(f"{name[:80]} is not a number: {str(value)[:40]!r}")
    for name, value in (summary.get("phases") or {}).items():
        if not _is_number(value):
            raise ValueError(f"phases.{name[:40]} is not a number: {str(value)[:40]!r}")
    peaks = (summary.get("memory") or {"peak_bytes": [0]}).get("peak_bytes")
    if not (isinstance(peaks, list) and peaks and all(map(_is_number, peaks))):
        raise ValueError(f"memory.peak_bytes is not a list of numbers: {str(peaks)[:40]!r}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _all_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_all_numbers, value.values()))
    return all(map(_all_numbers, value)) if isinstance(value, list) else value is None or _is_number(value)


def _rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


_KINDS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (TEXTS, lambda value: isinstance(value, str), "a text"),
    (COUNTS, _is_count, "a whole number"),
    (FLAGS, lambda value: isinstance(value, bool), "true or false"),
    (MAPPINGS, lambda value: isinstance(value, dict), "an object"),
    (PERHAPS, lambda value: isinstance(value, dict | None), "an object"),
    (SINGLE, lambda value: value is None or _is_number(value), "a number"),
    (ROWS, _rows, "a list of objects"),
    (NUMBERS, _all_numbers, "made of numbers"),
)


def _check_units(value: dict[str, Any] | list[Any]) -> None:
    """Asked of some hundred thousand entries a paper, so of those alone that may hold others."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if name.endswith(UNITS) and not _all_numbers(entry):
                raise ValueError(f"{name} is not made of numbers: {str(entry)[:40]!r}")
            if isinstance(entry, dict | list) and name not in NOT_VALUES:
                _check_units(entry)
    else:
        for entry in value:
            if isinstance(entry, dict | list):
                _check_units(entry)
