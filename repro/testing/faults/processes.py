"""Finds the processes of a folder: a command and its launcher by their command lines, its ranks by their files."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from repro.core import locks
from repro.rank import ends


def of(folder: Path) -> list[int]:
    """The processes, except zombies, that name `folder` or something in it in their command line or
    `$REPRO_RESULTS`."""
    return [process.pid for process in _of(folder)]


def ranks(folder: Path) -> dict[int, int]:
    """rank -> process id of the ranks of a run below `folder`, without launchers."""
    found = {}
    for lock in folder.rglob(locks.RANKS):
        for rank, pid in ends.processes(lock.with_name(ends.FOLDER)).items():
            with contextlib.suppress(psutil.Error):  # it has ended, and another may have its number
                if any(file.path == str(lock.resolve()) for file in psutil.Process(pid).open_files()):
                    found[rank] = pid
    return found


def kill(pids: Iterable[int], sign: int) -> None:
    """Send each living process a signal."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


def kill_all(folder: Path) -> None:
    """Kill all processes that use `folder`, including those they start meanwhile."""
    while left := of(folder):
        kill(left, signal.SIGKILL)
        time.sleep(0.01)


def _of(folder: Path) -> list[psutil.Process]:
    """The processes with their `info`; zombies have no command line, unreadable ones no environment."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        if process.info["cmdline"] and process.info["environ"] is not None:
            words = [*process.info["cmdline"], process.info["environ"].get("REPRO_RESULTS", "")]
            if any(word == str(folder) or word.startswith(f"{folder}/") for word in words):
                found.append(process)
    return found
