"""The guard of a command: a process that ends what the command leaves running, and removes its temporary folder.

`python -IS command_guard.py FOLDER`, started by `repro.core.command_process`. Its standard input is a socket that the
command holds: a byte is the number of a signal that the command has received, the end of the file is the end of the
command, however it ended. It recognises the command's processes by FOLDER in their environment, because most of them
have other parents by then. Uses only the standard library, so that it starts in 20 ms.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

VARIABLE = "_REPRO_COMMAND"  # the command's temporary folder, in the environment of all that it starts
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
COMMAND_S = 2.5  # from a signal to the command's own end; then it is killed
PROCESSES_S = 10.0  # limit for killed processes to disappear
LOOK_EVERY_S = 0.01


def processes_of(folder: str) -> list[int]:
    """The processes whose environment has this folder, zombies excepted."""
    entry, pids = f"{VARIABLE}={folder}".encode(), []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # another user's, or it has ended
            if entry in environment.read_bytes().split(b"\0"):
                pids.append(int(environment.parent.name))
    return pids


def kill_processes(folder: str) -> None:
    """Kill the processes of a command, and those that they start meanwhile; returns when none is left."""
    until = time.monotonic() + PROCESSES_S
    while (left := processes_of(folder)) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_EVERY_S)


def guard_command(folder: str, command: int) -> None:
    """Wait for the end of process `command`, kill it if a signal does not end it, then clear up."""
    late: float | None = None
    while True:
        wait_s = None if late is None else max(0.0, late - time.monotonic())
        if select.select([0], [], [], wait_s)[0]:
            if not (numbers := os.read(0, 64)):
                break
            if late is None and not set(numbers).isdisjoint(ENDING):
                late = time.monotonic() + COMMAND_S
        else:
            late = None
            if os.getppid() == command:  # else it has ended
                os.kill(command, signal.SIGKILL)
    kill_processes(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    for sign in ENDING:
        signal.signal(sign, signal.SIG_IGN)
    guard_command(sys.argv[1], os.getppid())
