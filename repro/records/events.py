"""The event log of one run: JSON lines, append-only, the truth from which summary, report and MLflow mirror are made.

Kinds of event (seconds unless said otherwise; `iteration` counts from 1, 0 is "before training"):

    run_start   {key, iteration: 0, iterations}   an attempt from the beginning (the configuration is in config.yaml)
    resume      {iteration}            the run went on from the checkpoint of this iteration
    steps       {iteration (the last one), n, loss, step_s {...}, phases {...}, ...}   n iterations taken together
    evaluation  {iteration, epoch, train_s, wall_s, loss, test_loss, top1, ...}        one point of the curve
    checkpoint  {iteration}
    preempted   {iteration}            asked to leave: ended at the checkpoint of this iteration; goes on from there
    trace       {...}                  a few iterations' intervals
    run_end     {...}
    failed      {reason}
    diverged    {key, reason}          ended for good: a loss or a weight is not finite; there is no summary

A number that is not finite (a diverged loss) is written as null, so that every line is standard JSON. The last field
of a line, `crc`, is the CRC-32 of the line without it: a line that has been changed is not an event.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import zlib
from pathlib import Path
from typing import Any

from repro.core import safe_files, strict_json
from repro.core.atomic import sync_folder
from repro.core.errors import InputError, cannot


def line_of(event: str, **fields: Any) -> str:
    """An event as a line of the log, with its checksum."""
    return with_checksum(json.dumps(_plain({"event": event, **fields}), allow_nan=False, separators=(",", ":")))


def with_checksum(text: str) -> str:
    """An object's text with its CRC-32 as the last entry."""
    return f'{text[:-1]},"crc":{zlib.crc32(text.encode())}}}'


def take_checksum(entry: dict[str, Any], text: bytes) -> None:
    """Take the checksum out of an entry that was read from a text; ValueError where it is not the text's."""
    whole, _, _ = text.rpartition(b',"crc":')
    if entry.pop("crc", None) != zlib.crc32(whole + b"}"):
        raise ValueError("its checksum is missing or another")


class EventLog:
    """Appends to one file; `append` only buffers, `flush` does the input/output (training clock paused).

    Opening a file that a crash left with half a line at its end removes that half.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self._buffer: list[str] = []
        try:
            safe_files.make_folder(self.path.parent)
            # Unbuffered: after `flush` the bytes are with the operating system, and outlive this process's SIGKILL.
            self._file = safe_files.open_file(self.path, "ab", buffering=0)
            drop_torn_line(self.path)
        except OSError as error:
            raise cannot("write", self.path, error) from None

    def append(self, event: str, **fields: Any) -> None:
        """Remember one event. It is made into text here, so later changes to the fields' objects do not reach it."""
        self._buffer.append(line_of(event, **fields))

    def flush(self) -> None:
        """Write what was appended, as whole lines. A full disk leaves the file as it was before the call."""
        if not self._buffer:
            return
        data = "".join(f"{text}\n" for text in self._buffer).encode()
        descriptor = self._file.fileno()
        before = os.fstat(descriptor).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(descriptor, data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, before)
            raise cannot("write", self.path, error) from None
        self._buffer.clear()

    def sync(self) -> None:
        """As `flush`, and all of the file is on the disk when this returns."""
        self.flush()
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise cannot("write", self.path, error) from None
        sync_folder(self.path.parent)

    def close(self) -> None:
        if not self._file.closed:
            try:
                self.flush()
            finally:
                self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_events(path: Path) -> list[dict[str, Any]]:
    """Every event that counts, in order; a missing file holds none.

    Half a line at the end (the writer was killed, or is writing) is left out. A line in the middle that is not an
    event is an InputError naming file and line. What a `resume` event took back is left out.
    """
    try:
        data = safe_files.read(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot("read", path, error) from None
    events = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            events.append(_event(line))
        except ValueError as error:
            advice = "`repro run` goes on before it where the run is unfinished; --force runs it again"
            raise InputError(f"{path}:{number}: not an event ({error}); {advice}") from None
    return superseded(events)


def superseded(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`events` without those that a later resume took back.

    A run that resumes from the checkpoint of iteration s does s + 1 and the following ones again, so earlier events
    whose "iteration" is above s no longer count. Events without an iteration stay, and so do earlier resumes, which
    tell how often the run was started. (A `steps` event must not reach across a checkpoint: the loop
    writes one there, or the checkpoint holds what the next one will say of the time before it.)
    """
    kept: list[dict[str, Any]] = []
    for event in events:
        if event["event"] == "resume":
            last = event["iteration"]
            kept = [old for old in kept if old["event"] == "resume" or (old.get("iteration") or 0) <= last]
        kept.append(event)
    return kept


def cut_back(path: Path) -> str | None:
    """Cut a log off before its first line that is not an event; which line that was and why, or None if all are."""
    end = 0
    for number, line in enumerate(safe_files.read(path).splitlines(keepends=True), 1):
        try:
            _event(line)
        except ValueError as error:
            with safe_files.open_file(path, "r+b") as file:
                file.truncate(end)
            return f"{path}:{number}: not an event ({error})"
        end += len(line)
    return None


def _event(text: bytes) -> dict[str, Any]:
    """What a line of a log says; ValueError where it is not an event as it was written."""
    event = strict_json.parse(text)
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError("not an object with an 'event'")
    if event["event"] == "resume" and not isinstance(event.get("iteration"), int):
        raise ValueError("a resume without its iteration")
    take_checksum(event, text)
    return event


def drop_torn_line(path: Path) -> None:
    """Cut the file after its last newline: half a line is what a crash left."""
    data = safe_files.read(path)
    if (whole := data.rfind(b"\n") + 1) < len(data):
        with safe_files.open_file(path, "r+b") as file:
            file.truncate(whole)


def _plain(value: Any) -> Any:
    """The value as JSON knows it: NumPy and torch scalars as numbers, numbers that are not finite as None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if not isinstance(value, bool | int | float | str | None) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
