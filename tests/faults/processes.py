"""Finds and kills the processes of a results folder: commands and launchers by command line, ranks by open files."""

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


def processes_of(folder: Path) -> list[int]:
    """The processes, except zombies, with `folder` or a path in it in their command line or `$REPRO_RESULTS`."""
    pids = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        command, environ = process.info["cmdline"], process.info["environ"]  # none of a zombie, none if unreadable
        if command and environ is not None:
            words = [*command, environ.get("REPRO_RESULTS", "")]
            if any(word == str(folder) or word.startswith(f"{folder}/") for word in words):
                pids.append(process.pid)
    return pids


def ranks(folder: Path) -> dict[int, int]:
    """rank -> process id of the ranks of a run below `folder`, without launchers."""
    pids = {}
    for lock in folder.rglob(locks.RANKS):
        for rank, pid in ends.rank_processes(lock.with_name(ends.FOLDER)).items():
            with contextlib.suppress(psutil.Error):  # it has ended, and another may have its number
                if any(file.path == str(lock.resolve()) for file in psutil.Process(pid).open_files()):
                    pids[rank] = pid
    return pids


def kill(pids: Iterable[int], sign: int) -> None:
    """Send each living process a signal."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


def kill_all(folder: Path) -> None:
    """Kill all processes of `folder`, including those that they start meanwhile."""
    while left := processes_of(folder):
        kill(left, signal.SIGKILL)
        time.sleep(0.01)
