"""Delays from a file, in seconds.

A row for each step, a column for each worker; after the last row the file starts again. The format is CSV or JSON lines
(a list of numbers each). Empty lines and lines that start with # are ignored.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from repro.algorithms.imbalance.base import Imbalance, is_number
from repro.core import user_files
from repro.core.errors import InputError
from repro.core.not_none import not_none
from repro.core.user_files import read_bytes


@dataclass
class TraceOptions:
    """file: its path, relative to the current folder or absolute; on a cluster every node must see it"""

    file: str | None = None

    def __post_init__(self) -> None:
        if not self.file:
            raise InputError(f"imbalance.file={self.file}: must be the path of a file of delays")


class Trace(Imbalance):
    """Iteration t uses row t modulo the number of rows."""

    name = "trace"
    Options = TraceOptions

    def __init__(self, options: TraceOptions, workers: int, seed: int):
        super().__init__(options, workers, seed)
        self.rows = read_delays(Path(not_none(options.file)), workers)

    @classmethod
    def checksum(cls, options: TraceOptions) -> str | None:
        return hashlib.sha256(_bytes(Path(not_none(options.file)))).hexdigest()

    @cached_property
    def longest(self) -> float:
        return max(max(row) for row in self.rows)

    def delays(self, iteration: int) -> list[float]:
        return list(self.rows[iteration % len(self.rows)])


def read_delays(path: Path, workers: int) -> list[list[float]]:
    """The rows (steps, workers) in seconds; InputError naming file and line for anything else."""
    try:
        lines = _bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"imbalance.file={path}: not a text file") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if (text := line.strip()) and not text.startswith("#"):
            rows.append(_row(text, f"imbalance.file={path}:{number}", workers))
    if not rows:
        raise InputError(f"imbalance.file={path}: has no row; must have one a step, of seconds of each worker")
    return rows


def _row(text: str, where: str, workers: int) -> list[float]:
    try:
        row = user_files.parse_json(text) if text.startswith("[") else [float(column) for column in text.split(",")]
    except ValueError:
        raise InputError(f"{where}: '{text[:40]}' is neither numbers with commas between nor a JSON list") from None
    for seconds in row:
        if not is_number(seconds) or seconds < 0:
            raise InputError(f"{where}: '{str(seconds)[:40]}' must be a number of seconds, 0 or more")
    if len(row) != workers:
        raise InputError(f"{where}: {len(row)} columns; must have one a worker, workers={workers}")
    return [float(seconds) for seconds in row]


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise InputError(f"imbalance.file={path}: {error.strerror or error}; must be a file of delays") from None
