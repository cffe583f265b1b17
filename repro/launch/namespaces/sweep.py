"""The processes of a network: its daemon, and what still runs inside when it goes, by the mark in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

GRACE_S = 5.0


def marked(network_id: str) -> list[int]:
    """The processes, this one apart, whose environment names the network."""
    others = [each for each in psutil.process_iter(["environ"]) if each.pid != os.getpid()]
    return [each.pid for each in others if any(network_id in value for value in (each.info["environ"] or {}).values())]


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did: tells it from another that got its number later.

    psutil's time is that of the day, which is another for the same process once somebody has set the clock.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None


def end_processes(network_id: str, grace_s: float = GRACE_S) -> list[int]:
    """Wait until none is left, and kill what is left after the grace; returns what even that did not end."""
    until = time.monotonic() + grace_s
    while (left := marked(network_id)) and time.monotonic() < until + GRACE_S:
        if time.monotonic() > until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    return left
