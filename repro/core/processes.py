"""Processes: the environment of those that we start; a rank's parent-death signal, its local and global rank, and what
torch.distributed reads of a Slurm task.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
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


MASTER = "REPRO_FIRST_HOST"  # rank 0's host, which our launcher sets for its own srun


def translate_variables(fabric: str) -> None:
    """Set torch's variables from Slurm's, if our launcher started the ranks with srun."""
    if MASTER in os.environ and "SLURM_PROCID" in os.environ:
        os.environ.update(rank_environment(os.environ, fabric))


def rank_environment(slurm: Any, fabric: str) -> dict[str, str]:
    """torch.distributed's variables from Slurm's variables of a task; LOCAL_RANK selects the GPU."""
    variables = {"LOCAL_RANK": slurm["SLURM_LOCALID"]}
    if fabric == "torch":
        # the largest number on any node, so that all ranks choose the same backend
        most = max(tasks_per_node(slurm.get("SLURM_STEP_TASKS_PER_NODE") or slurm.get("SLURM_TASKS_PER_NODE", "1")))
        variables |= {
            "RANK": slurm["SLURM_PROCID"],
            "WORLD_SIZE": slurm.get("SLURM_STEP_NUM_TASKS") or slurm["SLURM_NTASKS"],
            "LOCAL_WORLD_SIZE": str(most),
            "MASTER_ADDR": reachable_host(slurm.get(MASTER, ""), slurm.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1")),
            "MASTER_PORT": str(rendezvous_port(slurm)),
        }
    return variables


def rendezvous_port(slurm: Any) -> int:
    """A port that is the same on all ranks and differs between jobs, restarts of a job, and steps."""
    job, restart, step = (int(slurm.get(f"SLURM_{name}") or 0) for name in ("JOB_ID", "RESTART_COUNT", "STEP_ID"))
    return 20000 + (10 * job + 3 * restart + step) % 10000


def tasks_per_node(text: str) -> list[int]:
    """The tasks of each node, from Slurm's notation, such as 2(x3),1."""
    nodes = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(count) for count, times in nodes for _ in range(int(times or 1))] or [1]


def reachable_host(host: str, otherwise: str) -> str:
    """The host if its name resolves; else `otherwise`, the address from which srun was started, on the same node."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return otherwise
    return host or otherwise
