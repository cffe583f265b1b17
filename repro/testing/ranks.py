"""Starts ranks that run a test's program, with a time limit."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from repro.launch.local import mpirun_command, rank_environment, torchrun_command
from repro.launch.supervise import Ranks

LIMIT_S = 600.0  # only ends ranks that hang
COMMANDS = {"mpi": mpirun_command, "torch": torchrun_command}


def launch_ranks(
    fabric: str, size: int, program: Sequence[str], folder: Path, stall_s: float = LIMIT_S,
    limit_s: float = 2 * LIMIT_S, python: str = sys.executable,
) -> None:  # fmt: skip
    """Run `size` ranks of a program, given as arguments to `python`, to their end; raises the supervisor's error.

    The ranks have this process's `sys.path`; their output goes to `folder/log`.
    """
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHON_EXEC": python}
    ranks = Ranks(
        COMMANDS[fabric](size, list(program), python), rank_environment(threads=1) | variables, folder / "log"
    )
    end = threading.Timer(limit_s, ranks.stop)
    end.start()
    try:
        ranks.follow(lambda message: None, stall_s)
    finally:
        end.cancel()
        ranks.stop()
