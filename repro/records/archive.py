"""Archives of finished runs, by which runs of one machine are published in the reference on another.

A zip file with `manifest.json` (schema, and the size and SHA-256 of every other member) and the record of each run,
`PAPER/EXPERIMENT/RUN/summary.json`. Archives may come from other people, so members are read as data and never
extracted or executed. The same runs give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

from repro.core import strict_json, user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError, cannot
from repro.records import probe_results
from repro.records.record import SCHEMA, ProbeResult, Record

MANIFEST, SUMMARY = "manifest.json", "summary.json"
# limits on the memory that an archive may take
MOST_BYTES = 2**26  # of a member; a summary has some kilobytes, one with intervals a few megabytes
MOST_TOTAL = 2**28  # of all members
MOST_RUNS = 10_000
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # they decompress no more than the requested bytes
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def unclean(runs: Sequence[Record]) -> list[str]:
    """The names of the runs that were made by uncommitted code, or by unknown code."""
    return [run.name for run in runs if run.provenance.get("dirty") is not False]


def pack(path: Path, runs: Sequence[Record]) -> str:
    """Write an archive of these runs; returns its SHA-256. InputError for a run that `read` would refuse, or a path
    that cannot be written."""
    members: dict[str, bytes] = {}
    for run in sorted(runs, key=lambda run: run.name):
        text = json.dumps(shareable(run.plain()), sort_keys=True, allow_nan=False, indent=1)
        members[f"{folder_of(run, run.name)}/{SUMMARY}"] = text.encode()
    files = {
        name: {"bytes": len(member), "sha256": hashlib.sha256(member).hexdigest()} for name, member in members.items()
    }
    members[MANIFEST] = json.dumps({"schema": SCHEMA, "files": files}, indent=1).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, member in members.items():
            packed.writestr(zipfile.ZipInfo(name), member, zipfile.ZIP_DEFLATED)  # without date and user
    if archive.tell() > user_files.LARGEST or sum(map(len, members.values())) > MOST_TOTAL:
        raise InputError(f"{path}: {len(runs)} runs are more than one archive may hold; choose some by --where")
    try:
        write_atomically(path, archive.getvalue())
    except OSError as error:
        raise cannot("write", path, error) from None
    return hashlib.sha256(archive.getvalue()).hexdigest()


def read(path: Path) -> list[Record]:
    """The runs of an archive; InputError names a member that is missing, altered, unexpected, or no finished run."""
    try:
        with zipfile.ZipFile(io.BytesIO(user_files.read_bytes(path))) as packed:
            members = dict(_members(packed))
    except OSError as error:
        raise cannot("read", path, error) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(f"{path}: not an archive of `repro contribute` ({error})") from None
    try:
        manifest = strict_json.parse(members.pop(MANIFEST))
        schema = manifest["schema"]
        files = {name: (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: {MANIFEST} is not readable ({error!r})") from None
    if schema != SCHEMA:
        raise InputError(f"{path}: schema {schema}, this version reads {SCHEMA}")
    if different := sorted(files.keys() ^ members.keys()):
        raise InputError(
            f"{path}: {different[0]}: {'is missing' if different[0] in files else 'is not in its manifest'}"
        )
    for name, (size, digest) in files.items():
        if len(members[name]) != size or hashlib.sha256(members[name]).hexdigest() != digest:
            raise InputError(f"{path}: {name}: is not what was packed (SHA-256)")
    if other := sorted(name for name in files if not name.endswith(f"/{SUMMARY}")):
        raise InputError(f"{path}: {other[0]}: a run has {SUMMARY}, and no more")
    return [_run(path, name, members[name]) for name in sorted(files)]


def _members(packed: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    infos = packed.infolist()
    if len({info.filename for info in infos}) < len(infos) or len(infos) > MOST_RUNS + 1:
        raise ValueError("duplicate members, or too many")
    total = 0
    for info in infos:
        if info.compress_type not in METHODS:
            raise ValueError(f"{info.filename} is compressed by a method that `repro contribute` does not use")
        with packed.open(info) as file:
            member = file.read(MOST_BYTES + 1)  # the size in its header may be wrong
        if len(member) > MOST_BYTES:
            raise ValueError(f"{info.filename} is larger than {MOST_BYTES} bytes")
        total += len(member)
        if total > MOST_TOTAL:
            raise ValueError(f"its members have more than {MOST_TOTAL:,} bytes")
        yield info.filename, member


def _run(path: Path, name: str, member: bytes) -> Record:
    folder = name.rpartition("/")[0]
    try:
        record = Record.of(strict_json.parse(member))
        if isinstance(record.result, ProbeResult):
            probe_results.check_declared(record.identity.program, record.result.found)
    except ValueError as error:
        raise InputError(f"{path}: {folder}: not a readable run ({error})") from None
    if folder_of(record, f"{path}: {folder}") != folder:
        raise InputError(f"{path}: {folder}: holds a run of another name")
    return record


def folder_of(record: Record, what: str) -> str:
    """PAPER/EXPERIMENT/RUN of a run; InputError if its names are not plain, or its code was not committed."""
    names = record.identity.paper, record.identity.experiment, record.run
    if not all(PLAIN.fullmatch(name) for name in names):
        raise InputError(f"{what}: paper, experiment or run have no plain name")
    if unclean([record]):
        raise InputError(f"{what}: was made by code that was not committed, or of which nobody knows")
    return "/".join(names)


def shareable(value: Any) -> Any:
    """The value with only the last component of each text that is an absolute path."""
    if isinstance(value, dict):
        return {name: shareable(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [shareable(entry) for entry in value]
    return PurePath(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value
