"""Processes: the environment of those that we start; a rank's parent-death signal, its local and global rank, and its
messages to the parent process."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from repro.core.paths import PROJECT, is_checkout

PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
PR_SET_PDEATHSIG = 1

# The innermost launcher comes first: mpirun and torchrun in a batch job inherit the Slurm variables of the job script.
VARIABLES = (
    "LOCAL_RANK",  # torchrun; ours under srun
    "OMPI_COMM_WORLD_LOCAL_RANK",  # Open MPI's mpirun
    "MPI_LOCALRANKID",  # MPICH and Intel MPI
    "PALS_LOCAL_RANKID",  # Cray
    "SLURM_LOCALID",  # srun
)
GLOBAL = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK", "SLURM_PROCID")


def safe_environment() -> dict[str, str]:
    """This process's environment, for a Python that imports nothing from its current folder.

    `python -m` and `python -c` search that folder first, and anybody's `decimal.py` may lie in it. A checkout that is
    not installed is found there too, so it is named instead, after the user's own $PYTHONPATH.
    """
    path = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(PROJECT) if is_checkout() else ""]
    return os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, path)))}


@contextlib.contextmanager
def safe_start() -> Iterator[None]:
    """Processes that are started inside the block, by a library that takes no environment, have the safe one."""
    before = dict(os.environ)
    os.environ.update(safe_environment())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class StopWatch:
    """Finds processes that stay stopped, as by SIGSTOP: nothing else ends the wait for one that has no peers.

    Counts looks in a row, not seconds: this process may have been stopped with them.
    """

    def __init__(self, looks: int):
        self._looks = looks
        self._counts: dict[int, int] = {}

    def stopped(self, pids: Iterable[int]) -> list[int]:
        """Those of the processes that were stopped at the last `looks` calls."""
        self._counts = {pid: self._counts.get(pid, 0) + 1 for pid in pids if _state(pid) == "T"}
        return [pid for pid, count in self._counts.items() if count >= self._looks]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def end_with_parent(sign: int = signal.SIGTERM, parent: int = 0) -> None:
    """Send this process a signal, by default SIGTERM, when its parent ends (Linux: the thread that forked it).

    parent: its number, if it may have ended already; then the signal comes now.
    """
    if PRCTL is not None:
        PRCTL(PR_SET_PDEATHSIG, sign)
    if parent and os.getppid() not in (parent, 0):  # 0: a parent in another PID namespace
        os.kill(os.getpid(), sign)


def local_rank(environment: Mapping[str, str] | None = None, otherwise: int = 0) -> int:
    """The local rank of this process on its host, from 0; `otherwise` if no launcher sets it."""
    return _first_number(VARIABLES, os.environ if environment is None else environment, otherwise)


def global_rank() -> int:
    """The rank of this process in its run, from 0; 0 if no launcher sets it."""
    return _first_number(GLOBAL, os.environ, 0)


def _first_number(names: Iterable[str], environment: Mapping[str, str], otherwise: int) -> int:
    return next((int(environment[name]) for name in names if environment.get(name, "").isdigit()), otherwise)


def print_event(event: str, **fields: Any) -> None:
    """Print a line of JSON for the parent process (`repro.launch.supervise`), which shows the progress."""
    print("@" + json.dumps({"event": event, **fields}), file=sys.stdout, flush=True)
