"""The processes that work in a folder, found by their command lines: a command, its launcher, its ranks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import psutil

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")


def of(folder: Path) -> list[int]:
    """The living processes (no zombies) that name `folder`, or something in it, on their command line or in
    `$REPRO_RESULTS`."""
    return [process.pid for process in _of(folder)]


def ranks(folder: Path) -> dict[int, int]:
    """rank -> process of the ranks that work in `folder`; launchers are left out."""
    found = {}
    for process in _of(folder):
        words, environment = process.info["cmdline"], process.info["environ"]
        rank = next((environment[name] for name in RANK_VARIABLES if name in environment), None)
        if "repro.rank.main" in words and rank is not None and "python" in Path(words[0]).name:
            found[int(rank)] = process.pid
    return found


def kill(pids: Iterable[int], sign: int) -> None:
    """Send each a signal; those that have ended meanwhile get none."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


def _of(folder: Path) -> list[psutil.Process]:
    """Each with its `info`; a zombie has no command line, and one that may not be read no environment."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        if process.info["cmdline"] and process.info["environ"] is not None:
            words = [*process.info["cmdline"], process.info["environ"].get("REPRO_RESULTS", "")]
            if any(word == str(folder) or word.startswith(f"{folder}/") for word in words):
                found.append(process)
    return found
