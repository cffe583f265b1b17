"""The file in which each rank reports its process id and why it ended to the command that started it.

The command creates the files before it starts the ranks, and ranks write in place, because over NFS a new file may stay
invisible for long. A killed rank leaves no reason.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from repro.core import safe_files
from repro.core.processes import global_rank

VARIABLE = "REPRO_RANK_ENDS"  # names the folder
FOLDER = "ranks"  # in a run's folder


class End(NamedTuple):
    """The end of a rank. kind: the error's mark (`repro.core.errors`), else its status; at: seconds since 1970."""

    rank: int
    kind: str
    reason: str
    at: float


def prepare_ends(folder: Path, ranks: int) -> None:
    """Create empty files in place of those of an earlier command."""
    safe_files.remove_tree(folder)
    safe_files.make_folder(folder)
    for rank in range(ranks):
        safe_files.write_safely(folder / f"{rank}.json", b"")


def report_start() -> None:
    """Called by a rank: report its process id."""
    _write({"pid": os.getpid()})


def report_end(kind: str, reason: str) -> None:
    """Called by a rank: report why it ends."""
    _write({"pid": os.getpid(), "kind": kind, "reason": reason, "at": time.time()})


def _write(content: dict) -> None:
    if folder := os.environ.get(VARIABLE):
        with open(Path(folder, f"{global_rank()}.json"), "w", encoding="utf-8") as file:
            json.dump(content, file)


def read_ends(folder: Path) -> list[End]:
    """The reasons that ranks have reported."""
    return [End(rank, end["kind"], end["reason"], end["at"]) for rank, end in _files(folder) if "reason" in end]


def rank_processes(folder: Path) -> dict[int, int]:
    """rank -> process id, of the ranks that have begun."""
    return {rank: content["pid"] for rank, content in _files(folder)}


def _files(folder: Path) -> Iterator[tuple[int, dict]]:
    for path in folder.glob("*.json"):
        try:
            yield int(path.stem), json.loads(safe_files.read_safely(path))
        except (OSError, ValueError):  # not written yet, or incomplete
            continue
