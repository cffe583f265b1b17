"""Archives of runs, by which runs of one machine are published, or go on, on another.

A zip file with `manifest.json` (schema, and the size and SHA-256 of every other member) and for each run, in
PAPER/EXPERIMENT/RUN/, either its record (`summary.json`), or of an unfinished run `unfinished.json`, `events.jsonl` and
`checkpoint.pt` (`repro.records.unfinished`). Archives may come from other people, so members are read as data and never
extracted or executed. The same runs give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from repro.core import user_files
from repro.core.atomic import write_atomically
from repro.core.credentials import redact_credentials
from repro.core.errors import InputError, cannot_access
from repro.core.paths import EVENTS_FILE, RECORD_FILE
from repro.records import provenance
from repro.records.events import line_of, parse_events
from repro.records.record import SCHEMA, Record
from repro.records.unfinished import FILE, Unfinished

MANIFEST, SUMMARY = "manifest.json", RECORD_FILE
UNFINISHED = STATE, EVENTS, CHECKPOINT = FILE, EVENTS_FILE, "checkpoint.pt"
# limits on the memory that an archive may take
MOST_BYTES = 2**26  # of a member; a summary has some kilobytes, one with intervals a few megabytes
MOST_TOTAL = 2**28  # of all members
MOST_RUNS = 10_000
MOST_CHECKPOINT = 2**24 - 2**20  # of an unfinished run's checkpoint: some machines give back files up to 16 MiB
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # they decompress no more than the requested bytes
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class CutOff(NamedTuple):
    """An unfinished run with what another machine continues it from: its events and its checkpoint, both up to
    `run.iteration`."""

    run: Unfinished
    events: bytes
    checkpoint: bytes


class Archive(NamedTuple):
    """The content of an archive."""

    finished: list[Record]
    unfinished: list[CutOff]


def unclean(runs: Sequence[Record]) -> list[str]:
    """The names of the runs that were made by uncommitted code, or by unknown code."""
    return [run.name for run in runs if not provenance.clean(_attempts(run))]


def _attempts(run: Record) -> list[dict[str, Any]]:
    """What made a run: the attempts that were cut off, and the last."""
    earlier = run.provenance.get("attempts")
    known = [each for each in earlier if isinstance(each, dict)] if isinstance(earlier, list) else []
    return [*known, {"key": run.key, "dirty": run.provenance.get("dirty")}]


def cut_off(run: Unfinished, events: Sequence[dict[str, Any]], iteration: int, checkpoint: bytes) -> CutOff:
    """An unfinished run up to its checkpoint. Reasons of failures, which name places, are left out."""
    kept = [e for e in events if (e.get("iteration") or 0) <= iteration and e["event"] not in ("failed", "preempted")]
    lines = "".join(f"{line_of(**event)}\n" for event in kept)
    return CutOff(run.until(kept, iteration), lines.encode(), checkpoint)


def pack(path: Path, runs: Sequence[Record], unfinished: Sequence[CutOff] = ()) -> dict[Path, str]:
    """Write these runs into archives of at most one large checkpoint each: `path`, and as needed NAME-2.zip, ...

    Returns the SHA-256 of each file. InputError for a run that `read` would refuse, or a path that cannot be written.
    """
    archives: list[dict[str, bytes]] = [{}]
    for run in sorted(runs, key=lambda run: run.name):
        archives[0][f"{folder_of(run, run.name)}/{SUMMARY}"] = _text(run.plain())
    for each in sorted(unfinished, key=lambda each: each.run.name):
        members = (_text(each.run.plain()), each.events, each.checkpoint)
        if archives[-1] and sum(map(len, (*archives[-1].values(), *members))) > MOST_CHECKPOINT:
            archives.append({})
        folder = folder_of(each.run, each.run.name)
        archives[-1] |= {f"{folder}/{name}": member for name, member in zip(UNFINISHED, members, strict=True)}
    paths = [path, *(path.with_stem(f"{path.stem}-{number}") for number in range(2, len(archives) + 1))]
    return {path: _write(path, members) for path, members in zip(paths, archives, strict=True)}


def _text(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(shareable(plain), sort_keys=True, allow_nan=False, indent=1).encode()


def _write(path: Path, members: dict[str, bytes]) -> str:
    files = {
        name: {"bytes": len(member), "sha256": hashlib.sha256(member).hexdigest()} for name, member in members.items()
    }
    members = members | {MANIFEST: json.dumps({"schema": SCHEMA, "files": files}, indent=1).encode()}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, member in members.items():
            packed.writestr(zipfile.ZipInfo(name), member, zipfile.ZIP_DEFLATED)  # without date and user
    if archive.tell() > user_files.LARGEST_FILE or sum(map(len, members.values())) > MOST_TOTAL:
        raise InputError(f"{path}: {len(files)} files are more than one archive may hold; choose some by --where")
    try:
        write_atomically(path, archive.getvalue())
    except OSError as error:
        raise cannot_access("write", path, error) from None
    return hashlib.sha256(archive.getvalue()).hexdigest()


def read(path: Path) -> Archive:
    """The runs of an archive; InputError names a member that is missing, altered, unexpected, or not as of a run."""
    try:
        with zipfile.ZipFile(io.BytesIO(user_files.read_bytes(path))) as packed:
            members = dict(_members(packed))
    except OSError as error:
        raise cannot_access("read", path, error) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(f"{path}: not an archive of `repro contribute` ({error})") from None
    try:
        manifest = user_files.parse_json(members.pop(MANIFEST))
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
    folders: dict[str, dict[str, bytes]] = {}
    for name in sorted(files):
        folder, _, file = name.rpartition("/")
        folders.setdefault(folder, {})[file] = members[name]
    content = Archive([], [])
    for folder, contents in folders.items():
        if contents.keys() == {SUMMARY}:
            content.finished.append(_finished(path, folder, contents[SUMMARY]))
        elif contents.keys() == {*UNFINISHED}:
            content.unfinished.append(_unfinished(path, folder, contents))
        else:
            other = next((name for name in contents if name not in (SUMMARY, *UNFINISHED)), next(iter(contents)))
            raise InputError(f"{path}: {folder}/{other}: a run has {SUMMARY} alone, or {', '.join(UNFINISHED)}")
    return content


def _members(packed: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    infos = packed.infolist()
    if len({info.filename for info in infos}) < len(infos) or len(infos) > MOST_RUNS + 1:
        raise ValueError("duplicate members, or too many")
    total = 0
    for info in infos:
        if info.compress_type not in METHODS:
            raise ValueError(f"{info.filename} is compressed by a method that `repro contribute` does not use")
        most = MOST_CHECKPOINT if info.filename.endswith(f"/{CHECKPOINT}") else MOST_BYTES
        with packed.open(info) as file:
            member = file.read(most + 1)  # the size in its header may be wrong
        if len(member) > most:
            raise ValueError(f"{info.filename} is larger than {most} bytes")
        total += len(member)
        if total > MOST_TOTAL:
            raise ValueError(f"its members have more than {MOST_TOTAL:,} bytes")
        yield info.filename, member


def _finished(path: Path, folder: str, member: bytes) -> Record:
    try:
        record = Record.of(user_files.parse_json(member))
        record.check_probe_result()
    except ValueError as error:
        raise InputError(f"{path}: {folder}: not a readable run ({error})") from None
    if folder_of(record, f"{path}: {folder}") != folder:
        raise InputError(f"{path}: {folder}: holds a run of another name")
    return record


def _unfinished(path: Path, folder: str, members: Mapping[str, bytes]) -> CutOff:
    """An unfinished run, as its own events say. Its checkpoint is read by the ranks that continue it, as tensors and
    plain values (`repro.rank.checkpoints`)."""
    try:
        run = Unfinished.of(user_files.parse_json(members[STATE]))
        if run.until(parse_events(members[EVENTS]), run.iteration) != run:
            raise ValueError(f"{STATE} is not what {EVENTS} says")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: {folder}: not a readable unfinished run ({error})") from None
    if folder_of(run, f"{path}: {folder}") != folder:
        raise InputError(f"{path}: {folder}: holds a run of another name")
    return CutOff(run, members[EVENTS], members[CHECKPOINT])


def folder_of(run: Record | Unfinished, what: str) -> str:
    """PAPER/EXPERIMENT/RUN of a run; InputError if its names are not plain, or its code was not committed."""
    names = run.identity.paper, run.identity.experiment, run.run
    if not all(PLAIN.fullmatch(name) for name in names):
        raise InputError(f"{what}: paper, experiment or run have no plain name")
    if not (run.clean if isinstance(run, Unfinished) else not unclean([run])):
        raise InputError(f"{what}: was made by code that was not committed, or of which nobody knows")
    return "/".join(names)


def shareable(value: Any) -> Any:
    """The value without credentials in its texts, and with only the last component of each that is an absolute path."""
    if isinstance(value, dict):
        return {name: shareable(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [shareable(entry) for entry in value]
    if not isinstance(value, str):
        return value
    return PurePath(value).name if value.startswith(("/", "~")) else redact_credentials(value)
