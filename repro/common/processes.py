"""What a process asks of the system for itself."""

from __future__ import annotations

import ctypes
import signal

PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
PR_SET_PDEATHSIG = 1


def end_with_parent(sign: int = signal.SIGTERM) -> None:
    """If the parent dies, however, this process gets the signal: by default it is asked to end too (Linux)."""
    if PRCTL is not None:
        PRCTL(PR_SET_PDEATHSIG, sign)
