"""A rank's process: its end with its parent, its number on its host, and its messages to the parent."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
PR_SET_PDEATHSIG = 1

# The innermost launcher first: mpirun and torchrun in a batch job inherit the Slurm variables of the job's script.
VARIABLES = (
    "LOCAL_RANK",  # torchrun; ours under srun
    "OMPI_COMM_WORLD_LOCAL_RANK",  # Open MPI's mpirun
    "MPI_LOCALRANKID",  # MPICH and Intel MPI
    "PALS_LOCAL_RANKID",  # Cray
    "SLURM_LOCALID",  # srun
)
GLOBAL = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK", "SLURM_PROCID")  # in the same order


def end_with_parent(sign: int = signal.SIGTERM) -> None:
    """Send this process a signal, by default SIGTERM, when its parent ends (Linux)."""
    if PRCTL is not None:
        PRCTL(PR_SET_PDEATHSIG, sign)


def local_rank(environment: Mapping[str, str] | None = None, otherwise: int = 0) -> int:
    """This rank's number on its host, from 0; `otherwise` if no launcher sets it."""
    given = os.environ if environment is None else environment
    return next((int(given[name]) for name in VARIABLES if given.get(name, "").isdigit()), otherwise)


def global_rank() -> int:
    """Of this process among the ranks of its run; 0 where no launcher says it."""
    return next((int(os.environ[name]) for name in GLOBAL if os.environ.get(name, "").isdigit()), 0)


def say(event: str, **fields: Any) -> None:
    """Print a line of JSON for the parent process (`repro.launch.supervise`), which shows the progress."""
    print("@" + json.dumps({"event": event, **fields}), file=sys.stdout, flush=True)
