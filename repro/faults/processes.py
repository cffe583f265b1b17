"""The processes that work in a folder, found by their command lines (Linux): a command, its launcher, its ranks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")


def of(folder: Path) -> list[int]:
    """The living processes (no zombies) that name `folder`, or something in it, on their command line or in
    `$REPRO_RESULTS`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = [*_words(process / "cmdline"), _environment(process).get("REPRO_RESULTS", "")]
            if any(word == str(folder) or word.startswith(f"{folder}/") for word in words) and not _zombie(process):
                found.append(int(process.name))
    return found


def ranks(folder: Path) -> dict[int, int]:
    """rank -> process of the ranks that work in `folder`; launchers are left out."""
    found = {}
    for pid in of(folder):
        with contextlib.suppress(OSError):
            process = Path("/proc") / str(pid)
            words, environment = _words(process / "cmdline"), _environment(process)
            rank = next((environment[name] for name in RANK_VARIABLES if name in environment), None)
            if "repro.rank.main" in words and rank is not None and "python" in Path(words[0]).name:
                found[int(rank)] = pid
    return found


def kill(pids: Iterable[int], sign: int) -> None:
    """Send each a signal; those that have ended meanwhile get none."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


def _words(path: Path) -> list[str]:
    return [word for word in path.read_bytes().decode(errors="replace").split("\0") if word]


def _environment(process: Path) -> dict[str, str]:
    return dict(word.split("=", 1) for word in _words(process / "environ") if "=" in word)


def _zombie(process: Path) -> bool:
    return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
