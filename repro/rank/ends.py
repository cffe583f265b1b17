"""The file that each rank keeps for the command that started it: its process, and at its end why it ended.

The command makes the files before it starts the ranks, and ranks write in place: over NFS a file that is new may stay
unseen for long. A rank that is killed leaves no reason.
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
    """kind: the mark of an error (`repro.core.errors`), else its status; at: when, in seconds since 1970."""

    rank: int
    kind: str
    reason: str
    at: float


def prepare(folder: Path, ranks: int) -> None:
    """Make the files, without what an earlier command has left."""
    safe_files.remove_tree(folder)
    safe_files.make_folder(folder)
    for rank in range(ranks):
        safe_files.write(folder / f"{rank}.json", b"")


def begin() -> None:
    """Called by a rank: write down its process."""
    _write({"pid": os.getpid()})


def leave(kind: str, reason: str) -> None:
    """Called by a rank: write down why it ends."""
    _write({"pid": os.getpid(), "kind": kind, "reason": reason, "at": time.time()})


def _write(content: dict) -> None:
    if folder := os.environ.get(VARIABLE):
        with open(Path(folder, f"{global_rank()}.json"), "w", encoding="utf-8") as file:
            json.dump(content, file)


def read(folder: Path) -> list[End]:
    """The reasons that ranks have left."""
    return [
        End(rank, found["kind"], found["reason"], found["at"]) for rank, found in _files(folder) if "reason" in found
    ]


def processes(folder: Path) -> dict[int, int]:
    """rank -> its process, of those that have begun."""
    return {rank: found["pid"] for rank, found in _files(folder)}


def _files(folder: Path) -> Iterator[tuple[int, dict]]:
    for path in folder.glob("*.json"):
        try:
            yield int(path.stem), json.loads(safe_files.read(path))
        except (OSError, ValueError):  # not written yet, or not whole
            continue
