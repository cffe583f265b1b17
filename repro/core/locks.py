"""File locks, which are released when the last process that inherited them ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO

from repro.core import safe_files
from repro.core.errors import InputError

RUN, RANKS = "run.lock", "ranks.lock"  # in a run's folder: the lock of its command, and the lock of all its writers
LOOK_EVERY_S = 0.05


def take_lock(path: Path, kind: int = fcntl.LOCK_EX, wait_s: float = 0.0) -> IO[str] | None:
    """Lock a file until it is closed, and create it if necessary; None if others still hold the lock after `wait_s`
    seconds. kind: fcntl.LOCK_EX for one holder, LOCK_SH for several. InputError if the file system has no locks."""
    until = time.monotonic() + wait_s
    file = safe_files.open_file(path, "a")  # the caller closes it
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() >= until:
                file.close()
                return None
            time.sleep(LOOK_EVERY_S)
        except OSError as error:
            file.close()
            raise InputError(f"{path} cannot be locked: {error.strerror}; choose another file system") from None
        except BaseException:
            file.close()
            raise


def lock_users(path: Path) -> str:
    """The other visible processes on this machine that have a file open, for messages."""
    import psutil

    others = [each for each in psutil.process_iter(["open_files"]) if each.pid != os.getpid()]
    wanted = str(path.resolve())
    pids = [str(each.pid) for each in others if any(file.path == wanted for file in each.info["open_files"] or ())]
    return f"process {', '.join(pids)}" if pids else "a process of another user or machine"
