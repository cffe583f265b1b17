"""End what still runs inside a network that is going: processes that carry its mark in their environment."""

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


def end_processes(network_id: str, grace_s: float = GRACE_S) -> None:
    """Wait until none is left, and kill what is left after the grace."""
    until = time.monotonic() + grace_s
    while left := marked(network_id):
        if time.monotonic() > until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.1)
