"""Tables of runs: `runs`, `points` (evaluations), `rows` (of probe results) and `intervals` (of traced steps).

A column has one meaning and one type; entries of a mapping have its name as prefix: `factors.codec`, `options.K`. Rows
of the other tables refer to their run by `run`: `<experiment>/<run>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from repro.records.configured import Configured
from repro.records.tables import TABLES as TABLES
from repro.records.tables import make_frame as frame  # noqa: F401

SCALAR = (str, float, int, type(None))  # types of a column's values
# columns of `runs` that are entries of a summary
_PLAIN = (
    *("variant_name", "experiment", "strategy", "program", "kind", "testbed", "fabric", "launcher", "workers"),
    *("ranks", "seed", "scale", "breakdown", "batch", "epochs", "iterations", "metric", "bytes_sent"),
    *("min_compute_s", "key", "cpu_taken_share"),
)
_NESTED = {  # column -> its path in a summary
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
_MAPPINGS = ("factors", "options", "phases", "allreduce")  # entries of a summary with a column per key


def name(summary: Mapping[str, Any]) -> str:
    """The name of a run in other tables: `<experiment>/<run>`."""
    return f"{summary['experiment']}/{summary['run']}"


def rows(table: str, summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a run in one of `TABLES`."""
    own = {"run": name(summary)}
    if table == "runs":
        return [own | run(summary)]
    if table == "rows":
        return [own | row for row in _probe_rows(summary)]
    return [own | entry for entry in summary.get({"points": "curve", "intervals": "trace"}[table]) or ()]


def run(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A run's row. `variant`: its label (`repro.records.variants`); `variant_name`: its name in the experiment, which
    runs with other options may share. Times in seconds: `step_s` of an iteration, the mean over worker ranks;
    `iteration_s`: `train_s` by the number of iterations; rates are of all ranks together; `peak_mb`: the largest memory
    of a rank, 10^6 bytes; `cpu_taken_share`: the share of the ranks' cores that others took.
    """
    row = {"variant": summary["variant"]}
    row |= {column: summary.get(column) for column in _PLAIN}
    row |= {column: (summary.get(part) or {}).get(entry) for column, (part, entry) in _NESTED.items()}
    configured = {name: summary[name] for name in Configured.model_fields if name in summary and name not in row}
    row |= {name: value for name, value in configured.items() if isinstance(value, SCALAR)}
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
    for part in _MAPPINGS:
        entries = (summary.get(part) or {}).items()
        row |= {f"{part}.{entry}": value for entry, value in entries if isinstance(value, SCALAR)}
    return row | _derived(summary, row)


def _probe_rows(summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The entries of all lists of mappings in a probe's result; `table`: the name of the list."""
    for table, entries in (summary.get("result") or {}).items():
        if isinstance(entries, list):
            for entry in entries:
                if isinstance(entry, dict):
                    yield {"table": table} | dict(flat(entry))


def flat(entry: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The scalar entries of a mapping and its nested mappings, by path; without lists."""
    for key, value in entry.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")
        elif isinstance(value, SCALAR):
            yield f"{above}{key}", value


def _derived(summary: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Quantities that several reports compare, computed from other columns if the run has them.

    stalled: share of a step in which a rank waits for communication or other ranks; sample_bytes: bytes sent by all
    ranks per sample; model_mb: 10^6 bytes, at 4 bytes per parameter; parameters_m: millions.
    """
    columns: dict[str, Any] = {}
    phases, step, batch = summary.get("phases") or {}, row["step_s"], row["batch"]
    if step and {"communicate", "wait"} <= phases.keys():
        columns["stalled"] = (phases["communicate"] + phases["wait"]) / step
    if batch and row["bytes_sent"] is not None and (ranks := row["ranks"] or row["workers"]):
        columns["sample_bytes"] = row["bytes_sent"] * ranks / batch
    if row["parameters"]:
        columns |= {"model_mb": 4e-6 * row["parameters"], "parameters_m": 1e-6 * row["parameters"]}
    return columns
