"""The processes of a shaped network, identified by the network's id in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

GRACE_S = 5.0


def marked_processes(network_id: str) -> list[int]:
    """The processes, other than this one, whose environment has the network's id."""
    others = [each for each in psutil.process_iter(["environ"]) if each.pid != os.getpid()]
    return [each.pid for each in others if any(network_id in value for value in (each.info["environ"] or {}).values())]


def start_ticks(pid: int) -> int | None:
    """Start of a process in clock ticks since boot, which distinguishes it from a later process with its number.

    psutil reports the time of day instead, which changes when the clock is set.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None


def end_processes(network_id: str, grace_s: float = GRACE_S) -> list[int]:
    """Wait until the network's processes have ended, and kill those left after `grace_s`; returns the survivors."""
    until = time.monotonic() + grace_s
    while (left := marked_processes(network_id)) and time.monotonic() < until + GRACE_S:
        if time.monotonic() > until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    return left
