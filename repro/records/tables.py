"""Tables of finished runs: `TABLES`.

A column has one meaning and one type. `repro.records.run_columns` declares those of `runs`; the other tables have an
entry a row, with the columns `OF_RUN` of its run, of which an entry's own column of the same name takes the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.records import variants
from repro.records.record import TABLE_OF, Found, ProbeResult, Record
from repro.records.run_columns import run_row, scalar_entries

if TYPE_CHECKING:
    import pandas as pd

TABLES = {  # name -> what it holds
    "runs": "runs: configuration, provenance, hardware and result of each",
    "points": "evaluations of runs",
    "rows": "entries of the results of probes",
    "intervals": "intervals of traced steps",
}
OF_RUN = ("origin", "paper", "run", "experiment", "kind", "variant", "seed")  # columns of every table


def build_table(name: str, runs: Sequence[Found]) -> pd.DataFrame:
    """One of `TABLES` for these runs.

    `variant` is the label that separates a run from all others of the table but its other seeds (`variants.labels`). In
    `runs` the last columns are `configuration` and `besides` (digests, `variants.Labelled`).
    """
    labels = variants.labels([run.record for run in runs])
    rows: list[Mapping[str, Any]] = []
    for run, label in zip(runs, labels, strict=True):
        row = run_row(run) | label._asdict()
        of_run = {column: row[column] for column in OF_RUN}
        rows += [row] if name == "runs" else [of_run | entry for entry in list_entries(name, run.record)]
    return make_frame(rows, ("run",) if name == "runs" else OF_RUN)


def list_entries(table: str, record: Record) -> Iterable[dict[str, Any]]:
    """The entries of a run in the table `points`, `rows` or `intervals`, without the columns of the run."""
    if isinstance(record.result, ProbeResult):
        return _probe_rows(record.result.found) if table == "rows" else ()
    return next((getattr(record.result, name) for name, of_entry in TABLE_OF.items() if of_entry == table), ())


def _probe_rows(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The entries of all lists of mappings in a probe's result; `table`: the name of the list."""
    for table, entries in result.items():
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                yield {"table": table} | dict(scalar_entries(entry))


def make_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ("run",)) -> pd.DataFrame:
    """A DataFrame with one type per column; values of several types become text. columns: of a table without rows."""
    import pandas as pd

    columns = list(dict.fromkeys(column for row in rows for column in row)) or list(columns)
    return pd.DataFrame({column: _typed([row.get(column) for row in rows]) for column in columns})


def _typed(values: Sequence[Any]) -> pd.Series:
    import pandas as pd

    types = {type(value) for value in values if value is not None}
    if types == {int, float}:
        types = {float}
    if len(types) > 1:
        return pd.Series([None if value is None else str(value) for value in values], dtype="object")
    dtype = {bool: "boolean", int: "Int64", float: "float64"}.get(next(iter(types), str), "object")
    return pd.Series(list(values), dtype=dtype)
