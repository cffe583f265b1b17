"""The reference: published runs, a few tables a paper, committed and only read.

`results/reference/<paper>/` has

- `runs.parquet`       a row a run: the columns of `repro.records.tidy`, and as JSON its `record`, whole but for what
                       points and intervals hold
- `points.parquet`     a row an evaluation
- `rows.parquet`       a row of what a probe found, in columns; the summary has it too
- `intervals.parquet`  a row an interval of a traced step
- `sweeps.parquet`     a row a sweep over draws of the assumed inputs: the lines of its file (`repro.records.sweep`)
- `manifest.json`      the schema, and how many rows each table has and its SHA-256

A publish writes its tables aside (`runs.parquet.new`), then the manifest, by one rename: from there on they are the
reference. Then each takes the place of the old one. A kill at any point leaves the old reference or the new one whole,
and what it leaves aside the next publish puts in its place or removes (`settle`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from repro.core import safe_files, strict_json
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import reference_root
from repro.records import sweep, tidy
from repro.records.flat import flat
from repro.records.record import SCHEMA, Record
from repro.records.sweep import Sweep

MANIFEST = "manifest.json"
SWEEPS = "sweeps"
NEW = ".new"  # behind the name of a table that is not in its place yet
# of a result -> the table that holds it: lists of mappings without inner ones
LISTS = {"curve": "points", "trace": "intervals"}


def papers(root: Path | None = None) -> list[str]:
    """Whose runs there are, in order."""
    folder = root or reference_root()
    return sorted({path.parent.name for name in (MANIFEST, "runs.parquet") for path in folder.glob(f"*/{name}")})


def read(paper: str, root: Path | None = None) -> list[Record]:
    """A paper's runs, in the order of their names; none of one without a reference.

    Raises InputError where a table is not the one that was published.
    """
    folder = (root or reference_root()) / paper
    if paper not in papers(root):
        return []
    tables = _tables(folder)
    return [*_records(folder, tables["runs"], tuple(tables[table] for table in LISTS.values()))]


@lru_cache(maxsize=16)
def _records(folder: Path, runs: bytes, of_lists: tuple[bytes, ...]) -> tuple[Record, ...]:
    """The runs of tables: reading them takes a second, and a command asks for some several times."""
    lists = {part: _lists(_rows(table)) for part, table in zip(LISTS, of_lists)}
    return tuple(_published(row, lists, folder) for row in _rows(runs))


def sweeps(paper: str, root: Path | None = None) -> list[Sweep]:
    """A paper's sweeps, in the order of their names; InputError as of `read`."""
    folder = (root or reference_root()) / paper
    if paper not in papers(root) or SWEEPS not in _digests(folder):
        return []
    rows = check(folder, (SWEEPS,))[SWEEPS]
    found = [sweep.of_lines(row["lines"].splitlines(), f"{folder / SWEEPS}.parquet, {row['run']}") for row in rows]
    return [each for each in found if each]


def write(paper: str, runs: Sequence[Record], root: Path | None = None, swept: Sequence[Sweep] | None = None) -> Path:
    """A paper's reference, with these runs and no others; returns its folder. The same runs give the same bytes.

    swept: its sweeps; None: those that are there.
    """
    import pyarrow
    import pyarrow.parquet

    kept = sweeps(paper, root) if swept is None else swept
    folder = (root or reference_root()) / paper
    safe_files.make_folder(folder)
    settle(folder)
    # entries in the order in which they are read again, whoever made the record
    ordered = [Record.of(json.loads(_text(run.plain()))) for run in sorted(runs, key=lambda run: run.name)]
    tables = {name: tidy.frame([row for run in ordered for row in tidy.rows(name, flat(run))]) for name in tidy.TABLES}
    tables["runs"]["record"] = [_text(_without_lists(run.plain())) for run in ordered]
    if kept:
        in_order = sorted(kept, key=lambda one: one.name)
        tables[SWEEPS] = tidy.frame([{"run": one.name, "lines": "".join(sweep.lines_of(one))} for one in in_order])
    said: dict[str, Any] = {"schema": SCHEMA, "tables": {}}
    for name, table in tables.items():
        sink = pyarrow.BufferOutputStream()
        content = pyarrow.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
        pyarrow.parquet.write_table(content, sink, compression="zstd", compression_level=19)
        data = sink.getvalue().to_pybytes()
        write_atomically(folder / f"{name}.parquet{NEW}", data)
        said["tables"][name] = {"rows": len(table), "sha256": hashlib.sha256(data).hexdigest()}
    write_atomically(folder / MANIFEST, json.dumps(said, indent=1) + "\n")
    settle(folder)
    return folder


def unsettled(folder: Path) -> list[Path]:
    """The tables that a publish has left aside, because it was killed (or is at work)."""
    return sorted(folder.glob(f"*.parquet{NEW}"))


def settle(folder: Path) -> None:
    """Put the tables aside that the manifest names into their places, and remove the others."""
    if not (left := unsettled(folder)):
        return
    digests = _digests(folder) if (folder / MANIFEST).is_file() else {}
    for aside in left:
        path, data = aside.with_suffix(""), safe_files.read(aside)
        if hashlib.sha256(data).hexdigest() == digests.get(path.stem):
            write_atomically(path, data)
        safe_files.remove(aside)


def check(folder: Path, wanted: Sequence[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """The rows of a paper's tables; InputError naming the file that is missing, altered or of another schema.

    wanted: the tables whose rows are read, all are checked; none: every table.
    """
    found = _tables(folder)
    return {name: _rows(found[name]) for name in wanted or found}


def _tables(folder: Path) -> dict[str, bytes]:
    """The content of every table; InputError as of `check`."""
    digests = _digests(folder)
    try:
        return {name: _table(folder / f"{name}.parquet", digest) for name, digest in digests.items()}
    except InputError:
        if _digests(folder) != digests:  # another command has published meanwhile
            return _tables(folder)
        raise


def _rows(table: bytes) -> list[dict[str, Any]]:
    import pyarrow.parquet

    return list(pyarrow.parquet.read_table(pyarrow.BufferReader(table)).to_pylist())


def _manifest(folder: Path) -> Any:
    manifest = folder / MANIFEST
    try:
        return strict_json.parse(safe_files.read(manifest))
    except (OSError, ValueError) as error:
        raise InputError(f"{manifest}: not a readable manifest ({error!r})") from None


def _digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each table."""
    said, manifest = _manifest(folder), folder / MANIFEST
    try:
        there = [*tidy.TABLES, *({SWEEPS} & said["tables"].keys())]
        digests = {name: said["tables"][name]["sha256"] for name in there}
    except (KeyError, TypeError) as error:
        raise InputError(f"{manifest}: not a readable manifest ({error!r})") from None
    if said.get("schema") != SCHEMA:
        raise InputError(f"{manifest}: schema {said.get('schema')}, this version reads {SCHEMA}")
    return digests


def _table(path: Path, digest: str) -> bytes:
    """The content of a table with that digest: in its place, or still aside."""
    altered = f"if that publish was committed, `git checkout {path.name}` brings it back"
    for place in (path.with_name(path.name + NEW), path):
        try:
            data = safe_files.read(place)
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
        record = strict_json.parse(row["record"])
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
    """The record with, in the place of each list that a table holds, the names that all entries of it have."""
    found = dict(record["result"])
    for part in LISTS:
        if part in found:
            found[part] = sorted(set.intersection(*map(set, found[part]))) if found[part] else []
    return record | {"result": found}


def _lists(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """run -> its entries in order, with None for what the table leaves empty."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row.pop("run"), []).append(row)
    return found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
