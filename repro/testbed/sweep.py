"""The processes of a network: its daemon, and what still runs inside when it goes, by the mark in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

GRACE_S = 5.0


def marked(network_id: str) -> list[int]:
    """The processes, this one apart, whose environment names the network."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if int(path.parent.name) != os.getpid() and network_id.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did: tells it from another that got its number later."""
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
