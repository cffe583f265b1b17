"""Runs as four tables: `runs`, `points` (evaluations), `rows` (what probes found) and `intervals` (of traced steps).

A column has one meaning and one type; entries of a mapping have its name before theirs: `factors.codec`, `options.K`.
A row of the other tables says with `run` whose it is: `<experiment>/<run>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

ONE = (str, float, int, type(None))  # what stands in a column
TABLES = ("runs", "points", "rows", "intervals")
# of a summary: column -> where it stands
_PLAIN = (
    *("experiment", "strategy", "program", "kind", "testbed", "fabric", "launcher", "workers", "ranks", "seed"),
    *("scale", "breakdown", "batch", "epochs", "iterations", "metric", "bytes_sent", "min_compute_s", "key"),
)
_WITHIN = {
    "model": ("model", "name"),
    "parameters": ("model", "parameters"),
    "dataset": ("dataset", "name"),
    "standin": ("dataset", "standin"),
    "imbalance": ("imbalance", "name"),
    "precision": ("numerics", "precision"),
    "step_s": ("step", "mean_s"),
    "train_s": ("final", "train_s"),
    "test_loss": ("final", "test_loss"),
    "communication_s": ("communication", "total_s"),
    "exposed_s": ("communication", "exposed_s"),
    "hidden_s": ("communication", "overlapped_s"),
    "hardware": ("hardware", "class"),
    "commit": ("provenance", "commit"),
    "finished_at": ("provenance", "finished_at"),
}
_SPREAD = ("factors", "options", "phases", "allreduce")  # mappings of which each entry is a column


def name(summary: Mapping[str, Any]) -> str:
    """How rows of other tables call a run: `<experiment>/<run>`."""
    return f"{summary['experiment']}/{summary['run']}"


def rows(table: str, summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a run has in one of `TABLES`."""
    own = {"run": name(summary)}
    if table == "runs":
        return [own | run(summary)]
    if table == "rows":
        return [own | row for row in _found(summary)]
    return [own | entry for entry in summary.get({"points": "curve", "intervals": "trace"}[table]) or ()]


def run(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A run's row: seconds (of an iteration, the mean over the worker ranks; `iteration_s`: `train_s`, that of
    all iterations end to end, by their number), iterations and samples of all ranks a second, bytes, names; `peak_mb`:
    memory of the rank that had most, in 10^6 bytes.
    """
    row = {"variant": summary["variant"]}
    row |= {column: summary.get(column) for column in _PLAIN}
    row |= {column: (summary.get(part) or {}).get(entry) for column, (part, entry) in _WITHIN.items()}
    if summary.get("iterations") and row["train_s"] is not None:
        row["iteration_s"] = row["train_s"] / summary["iterations"]
        if row["iteration_s"] > 0:
            row["iterations_per_s"] = 1 / row["iteration_s"]
            row |= {"samples_per_s": row["batch"] / row["iteration_s"]} if row["batch"] else {}
    row["final"] = (summary.get("final") or {}).get(summary.get("metric"))
    for target, reached in (summary.get("targets") or {}).items():
        row[f"to_{target}_s"] = reached and reached["train_s"]
    if memory := summary.get("memory"):
        row |= {"peak_mb": 1e-6 * max(memory["peak_bytes"]), "peak_of": memory["of"]}
    for part in _SPREAD:
        row |= {
            f"{part}.{entry}": value for entry, value in (summary.get(part) or {}).items() if isinstance(value, ONE)
        }
    return row | _derived(summary, row)


def frame(found: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a frame whose columns have one type each; one whose values are of several holds them as text."""
    import pandas as pd

    columns = dict.fromkeys(column for row in found or [{"run": ""}] for column in row)
    return pd.DataFrame({column: _typed([row.get(column) for row in found]) for column in columns})


def _typed(values: Sequence[Any]) -> pd.Series:
    import pandas as pd

    types = {type(value) for value in values if value is not None}
    if types == {int, float}:
        types = {float}
    if len(types) > 1:
        return pd.Series([None if value is None else str(value) for value in values], dtype="object")
    dtype = {bool: "boolean", int: "Int64", float: "float64"}.get(next(iter(types), str), "object")
    return pd.Series(list(values), dtype=dtype)


def _found(summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The lists of mappings in a probe's result; `table` is the list's name."""
    for table, entries in (summary.get("result") or {}).items():
        if isinstance(entries, list):
            for entry in entries:
                if isinstance(entry, dict):
                    yield {"table": table} | dict(flat(entry))


def flat(entry: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """What stands in a mapping and the mappings in it, by the path to it; no lists."""
    for key, value in entry.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")
        elif isinstance(value, ONE):
            yield f"{above}{key}", value


def _derived(summary: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What several reports compare and no run says outright; nothing where a run lacks what it is computed from.

    stalled: share of a step in which a rank stands still for communication or for others; sample_bytes: that all ranks
    together send for a sample; model_mb: at 4 bytes a parameter, 10^6 bytes; parameters_m: millions.
    """
    found: dict[str, Any] = {}
    phases, step, batch = summary.get("phases") or {}, row["step_s"], row["batch"]
    if step and {"communicate", "wait"} <= phases.keys():
        found["stalled"] = (phases["communicate"] + phases["wait"]) / step
    if batch and row["bytes_sent"] is not None and (ranks := row["ranks"] or row["workers"]):
        found["sample_bytes"] = row["bytes_sent"] * ranks / batch
    if row["parameters"]:
        found |= {"model_mb": 4e-6 * row["parameters"], "parameters_m": 1e-6 * row["parameters"]}
    return found
