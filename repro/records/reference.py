"""The reference: tables of published runs, committed and read-only.

`results/reference/<paper>/` has

- `runs.parquet`       a row per run: the columns of `repro.records.tables`, and its `record` as JSON, without the
                       parts in points and intervals
- `points.parquet`     a row per evaluation
- `rows.parquet`       a row per entry of a probe's result, which the record has too
- `intervals.parquet`  a row per interval of a traced step
- `sweeps.parquet`     a row per sweep over draws of the assumed inputs: the lines of its file (`repro.records.sweep`)
- `manifest.json`      the schema, and the number of rows and SHA-256 of each table

A publish writes new tables (`runs.parquet.new`), then replaces the manifest by one rename, which makes the new tables
valid, then renames each table. Thus a kill at any point leaves either the old reference or the new one complete; the
next publish moves or removes the remaining new tables (`finish_publish`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.core import safe_files, user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import reference_root
from repro.records import sweep, variants
from repro.records.record import SCHEMA, TABLE_OF, Found, Record
from repro.records.run_columns import run_row
from repro.records.sweep import Sweep
from repro.records.tables import TABLES, list_entries, make_frame

if TYPE_CHECKING:
    import pyarrow

MANIFEST = "manifest.json"
SWEEPS = "sweeps"
NEW = ".new"  # suffix of a table that was not renamed yet


def papers(root: Path | None = None) -> list[str]:
    """The papers with published runs."""
    folder = root or reference_root()
    return sorted({path.parent.name for name in (MANIFEST, "runs.parquet") for path in folder.glob(f"*/{name}")})


def read(paper: str, root: Path | None = None, experiments: Collection[str] | None = None) -> list[Record]:
    """The published runs of a paper, or of some of its experiments, sorted by name; InputError if a table was
    altered."""
    folder = (root or reference_root()) / paper
    if paper not in papers(root):
        return []
    tables, wanted = _tables(folder), None if experiments is None else frozenset(experiments)
    return [*_records(folder, tables["runs"], tuple(tables[table] for table in TABLE_OF.values()), wanted)]


@lru_cache(maxsize=16)
def _records(
    folder: Path, runs: bytes, of_lists: tuple[bytes, ...], experiments: frozenset[str] | None
) -> tuple[Record, ...]:
    """The runs of tables; cached, because reading takes a second, and a command reads some tables several times."""
    lists = {part: _lists(_rows(table, None, experiments)) for part, table in zip(TABLE_OF, of_lists, strict=True)}
    return tuple(_published(row, lists, folder) for row in _rows(runs, ["run", "record"], experiments))


def column_types(paper: str, table: str) -> dict[str, pyarrow.DataType]:
    """The columns of a published table with their types, without reading it; none without that table."""
    import pyarrow.parquet

    path = reference_root() / paper / f"{table}.parquet"
    return {field.name: field.type for field in pyarrow.parquet.read_schema(path)} if path.is_file() else {}


def column_values(paper: str, columns: Sequence[str], table: str = "runs") -> set[Any]:
    """The values of columns of a published table, without reading the records; none without runs."""
    listed = table_columns(paper, columns, table).to_pydict()
    return {value for values in listed.values() for value in values if value is not None}


def table_columns(paper: str, columns: Sequence[str], table: str = "runs") -> pyarrow.Table:
    """Some columns of a published table, without reading the records; empty without runs."""
    import pyarrow.parquet

    path = reference_root() / paper / f"{table}.parquet"
    return pyarrow.parquet.ParquetFile(path).read([*columns]) if path.is_file() else pyarrow.table({})


def sweeps(paper: str, root: Path | None = None) -> list[Sweep]:
    """The published sweeps of a paper, sorted by name; InputError if a table was altered."""
    folder = (root or reference_root()) / paper
    if paper not in papers(root) or SWEEPS not in _digests(folder):
        return []
    return [*_sweeps(folder, _tables(folder)[SWEEPS])]


@lru_cache(maxsize=16)
def _sweeps(folder: Path, table: bytes) -> tuple[Sweep, ...]:
    """The sweeps of a table; cached, because a command reads them several times."""
    where = f"{folder / SWEEPS}.parquet"
    return tuple(sweep.read_published(row["lines"].splitlines(), f"{where}, {row['run']}") for row in _rows(table))


def write(paper: str, runs: Sequence[Record], root: Path | None = None, swept: Sequence[Sweep] | None = None) -> Path:
    """Replace a paper's reference by these runs; returns its folder. The same runs give the same bytes.

    swept: its sweeps; None: the existing ones.
    """
    import pyarrow
    import pyarrow.parquet

    swept = sweeps(paper, root) if swept is None else swept
    folder = (root or reference_root()) / paper
    safe_files.make_folder(folder)
    finish_publish(folder)
    # via JSON, so that entries have a fixed order
    ordered = [Record.of(json.loads(_text(run.plain()))) for run in sorted(runs, key=lambda run: run.name)]
    tables = {"runs": make_frame([run_row(Found(variants.REFERENCE, run)) for run in ordered])}
    tables["runs"]["variant"] = [label.variant for label in variants.labels(ordered)]
    tables["runs"]["record"] = [_text(_without_lists(run.plain())) for run in ordered]
    for name in [*TABLES][1:]:
        tables[name] = make_frame([{"run": run.name} | entry for run in ordered for entry in list_entries(name, run)])
    if swept:
        by_name = sorted(swept, key=lambda each: each.name)
        tables[SWEEPS] = make_frame([{"run": each.name, "lines": "".join(sweep.lines_of(each))} for each in by_name])
    manifest: dict[str, Any] = {"schema": SCHEMA, "tables": {}}
    for name, table in tables.items():
        sink = pyarrow.BufferOutputStream()
        content = pyarrow.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
        pyarrow.parquet.write_table(content, sink, compression="zstd", compression_level=19)
        data = sink.getvalue().to_pybytes()
        write_atomically(folder / f"{name}.parquet{NEW}", data)
        manifest["tables"][name] = {"rows": len(table), "sha256": hashlib.sha256(data).hexdigest()}
    write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    finish_publish(folder)
    return folder


def unfinished_publish(folder: Path) -> list[Path]:
    """New tables that a publish has not renamed, because it was killed, or is still running."""
    return sorted(folder.glob(f"*.parquet{NEW}"))


def finish_publish(folder: Path) -> None:
    """Rename the new tables that the manifest refers to, and remove the others."""
    if not (left := unfinished_publish(folder)):
        return
    digests = _digests(folder) if (folder / MANIFEST).is_file() else {}
    for new in left:
        path, data = new.with_suffix(""), safe_files.read_safely(new)
        if hashlib.sha256(data).hexdigest() == digests.get(path.stem):
            write_atomically(path, data)
        safe_files.remove_safely(new)


def check(folder: Path, wanted: Sequence[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """The rows of the wanted tables (default: all); InputError names a table that is missing, altered or of another
    schema, even if it is not wanted."""
    tables = _tables(folder)
    return {name: _rows(tables[name]) for name in wanted or tables}


def count_runs(folder: Path) -> int:
    """The number of runs; raises the errors of `check`."""
    import pyarrow.parquet

    return int(pyarrow.parquet.read_metadata(pyarrow.BufferReader(_tables(folder)["runs"])).num_rows)


def _tables(folder: Path) -> dict[str, bytes]:
    """The content of every table; raises the errors of `check`."""
    digests = _digests(folder)
    try:
        return {name: _table(folder / f"{name}.parquet", digest) for name, digest in digests.items()}
    except InputError:
        if _digests(folder) != digests:  # another command has published in the meantime
            return _tables(folder)
        raise


def _rows(
    table: bytes, columns: list[str] | None = None, experiments: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """experiments: only rows of their runs."""
    import pyarrow.parquet

    # unlike `read_table`, which imports pyarrow.dataset and pandas, a second
    content = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(table)).read(columns)
    if experiments is None:
        return list(content.to_pylist())
    rows: list[dict[str, Any]] = []  # of slices, since `take` and `filter` import pyarrow.compute
    start = 0
    for experiment, names in groupby(content["run"].to_pylist(), lambda name: name.partition("/")[0]):
        length = len([*names])
        rows += content.slice(start, length).to_pylist() if experiment in experiments else []
        start += length
    return rows


def _digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each table, from the manifest."""
    path = folder / MANIFEST
    try:
        manifest = user_files.parse_json(safe_files.read_safely(path))
        names = [*TABLES, *({SWEEPS} & manifest["tables"].keys())]
        digests = {name: manifest["tables"][name]["sha256"] for name in names}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a readable manifest ({error!r})") from None
    if manifest.get("schema") != SCHEMA:
        raise InputError(f"{path}: schema {manifest.get('schema')}, this version reads {SCHEMA}")
    return digests


def _table(path: Path, digest: str) -> bytes:
    """The content of the table with that digest, whether it was renamed or not."""
    altered = f"if that publish was committed, `git checkout {path.name}` brings it back"
    for place in (path.with_name(path.name + NEW), path):
        try:
            data = safe_files.read_safely(place)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        if hashlib.sha256(data).hexdigest() == digest:
            return data
    why = f"not as it was published (SHA-256); {altered}" if path.exists() else os.strerror(errno.ENOENT)
    raise InputError(f"{path}: {why}")


def _published(row: Mapping[str, Any], lists: Mapping[str, Mapping[str, list[Any]]], folder: Path) -> Record:
    try:
        record = user_files.parse_json(row["record"])
        result = record["result"]
        for part, of_run in lists.items():
            if part in result:
                names, entries = {*result[part]}, of_run.get(row["run"], [])
                result[part] = [
                    {name: value for name, value in entry.items() if value is not None or name in names}
                    if None in entry.values()
                    else entry
                    for entry in entries
                ]
        return Record.of(record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder / 'runs.parquet'}: {row.get('run')}: not a readable run ({error})") from None


def _without_lists(record: dict[str, Any]) -> dict[str, Any]:
    """The record, with each list that a table has replaced by the names that all of its entries have."""
    result = dict(record["result"])
    for part in TABLE_OF:
        if part in result:
            result[part] = sorted(set.intersection(*map(set, result[part]))) if result[part] else []
    return record | {"result": result}


def _lists(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The entries of each run in order; empty cells are None."""
    entries: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        entries.setdefault(row.pop("run"), []).append(row)
    return entries


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
