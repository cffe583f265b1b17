"""The event log of one run: append-only JSON lines, from which summary, report and MLflow mirror are made.

Kinds of event (times in seconds; `iteration` counts from 1, 0 is before training):

    run_start   {key, iteration: 0, iterations}   an attempt from the beginning (the configuration is in config.yaml)
    resume      {iteration}            the run continues from the checkpoint of this iteration
    attempt     {iteration, key, commit, dirty, torch, hardware}   what computes the iterations from here on
    steps       {iteration (the last one), n, loss, step_s {...}, phases {...}, ...}   n iterations together
    evaluation  {iteration, epoch, train_s, wall_s, loss, test_loss, top1, ...}        one point of the curve
    warning     {line}                 why the run's numbers may be wrong
    checkpoint  {iteration}
    preempted   {iteration}            the run ended early, with a checkpoint of this iteration to resume from
    trace       {...}                  intervals of a few iterations
    run_end     {...}
    failed      {reason}
    diverged    {key, reason}          a loss or a weight is not finite; the run has no summary and is not resumed

A number that is not finite (a diverged loss) is written as null, so that every line is standard JSON. The last field
of a line, `crc`, is the CRC-32 of the line without it, by which changed lines are detected.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from repro.core import safe_files, user_files
from repro.core.atomic import sync_folder
from repro.core.errors import InputError, cannot_access


def line_of(event: str, **fields: Any) -> str:
    """An event as a line of the log, with its checksum."""
    return with_checksum(json.dumps(_plain({"event": event, **fields}), allow_nan=False, separators=(",", ":")))


def with_checksum(text: str) -> str:
    """The JSON text of an object with its CRC-32 added as the last entry."""
    return f'{text[:-1]},"crc":{zlib.crc32(text.encode())}}}'


def take_checksum(entry: dict[str, Any], text: bytes) -> None:
    """Remove the checksum from a parsed entry; ValueError if it is not the checksum of the text."""
    content, _, _ = text.rpartition(b',"crc":')
    if entry.pop("crc", None) != zlib.crc32(content + b"}"):
        raise ValueError("its checksum is missing or another")


ENDS = ("failed", "diverged")  # events that end the log of a run without a result


def end_in(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The event that says why a run has no result; None if it was cut off, goes on, or finished."""
    return next((event for event in events[-1:] if event["event"] in ENDS), None)


def warnings_in(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why the run's numbers may be wrong."""
    return [event["line"] for event in events if event["event"] == "warning"]


class EventLog:
    """Appends events to a file: `append` buffers them, `flush` writes them (while the training clock is paused).

    Opening the file removes an incomplete last line, which a crash may have left.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self._buffer: list[str] = []
        try:
            safe_files.make_folder(self.path.parent)
            # unbuffered: after `flush` the operating system has the bytes, even if this process is killed
            self._file = safe_files.open_file(self.path, "ab", buffering=0)
            drop_torn_line(self.path)
        except OSError as error:
            raise cannot_access("write", self.path, error) from None

    def append(self, event: str, **fields: Any) -> None:
        """Buffer one event as text, so that later changes of the fields' objects have no effect."""
        self._buffer.append(line_of(event, **fields))

    def flush(self) -> None:
        """Write the buffered events; if the disk is full, the file stays as it was before the call."""
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
            raise cannot_access("write", self.path, error) from None
        self._buffer.clear()

    def sync(self) -> None:
        """Flush, and wait until the file is on the disk."""
        self.flush()
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise cannot_access("write", self.path, error) from None
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
    """The valid events in order, without those that a later `resume` superseded; none if the file is missing.

    An incomplete last line (the writer was killed, or is writing) is ignored. InputError names another invalid line.
    """
    try:
        data = safe_files.read_safely(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_access("read", path, error) from None
    try:
        return parse_events(data)
    except ValueError as error:
        advice = "`repro run` goes on before it where the run is unfinished; --force runs it again"
        raise InputError(f"{path}:{error}; {advice}") from None


def parse_events(data: bytes) -> list[dict[str, Any]]:
    """As `read_events`, from a log's content; ValueError names the line that is invalid."""
    events = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            events.append(_event(line))
        except ValueError as error:
            raise ValueError(f"{number}: not an event ({error})") from None
    return superseded(events)


def superseded(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events without those that a later resume superseded.

    A run that resumes from the checkpoint of iteration s repeats iterations s + 1 and later, so earlier events of these
    no longer count. Events without an iteration stay, and so do resumes, whose number is the number of restarts. (A
    `steps` event must not span a checkpoint: the loop writes one there, or the checkpoint stores its part.)
    """
    valid: list[dict[str, Any]] = []
    for event in events:
        if event["event"] == "resume":
            last = event["iteration"]
            valid = [old for old in valid if old["event"] == "resume" or (old.get("iteration") or 0) <= last]
        valid.append(event)
    return valid


def cut_back(path: Path) -> str | None:
    """Truncate a log before its first invalid line; returns that line's number and error, or None if all are valid."""
    end = 0
    for number, line in enumerate(safe_files.read_safely(path).splitlines(keepends=True), 1):
        try:
            _event(line)
        except ValueError as error:
            with safe_files.open_file(path, "r+b") as file:
                file.truncate(end)
            return f"{path}:{number}: not an event ({error})"
        end += len(line)
    return None


def _event(text: bytes) -> dict[str, Any]:
    """Parse a line; ValueError if it is not an unchanged event."""
    event = user_files.parse_json(text)
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError("not an object with an 'event'")
    if event["event"] == "resume" and not isinstance(event.get("iteration"), int):
        raise ValueError("a resume without its iteration")
    take_checksum(event, text)
    return event


def drop_torn_line(path: Path) -> None:
    """Truncate the file after its last newline; a crash may have left an incomplete line."""
    data = safe_files.read_safely(path)
    if (whole := data.rfind(b"\n") + 1) < len(data):
        with safe_files.open_file(path, "r+b") as file:
            file.truncate(whole)


def _plain(value: Any) -> Any:
    """The value in JSON's types: NumPy and torch scalars as numbers, numbers that are not finite as None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if not isinstance(value, bool | int | float | str | None) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
