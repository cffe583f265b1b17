"""Ranks started by srun inside a Slurm allocation: the MPI fabric through PMIx, or torch.distributed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from repro.common.errors import InputError, unknown
from repro.common.paths import PROJECT
from repro.experiment.testbeds import Measured
from repro.fabric.srun_ranks import MASTER
from repro.launch.base import Allocation, Launcher
from repro.launch.slurm import client
from repro.launch.slurm import site as sites

NEEDED = {"mpi": ("torch", "mpi4py", "repro"), "torch": ("torch", "repro")}
# On every node, before its ranks: what is not there is said in one line that names the node. $0: the checkout, $1: the
# run's folder, $2: the packages, $3: how many words the command has up to Python.
GUARD = r"""
die() { echo "repro-error[2] node ${SLURMD_NODENAME:-$(hostname)}: $*" >&2; exit 2; }
cd "$0" 2> /dev/null || die "no checkout at $0: it must lie on a file system that all nodes see"
test -w "$1" || die "no results folder $1: set REPRO_RESULTS to a place that all nodes see, and submit again"
python=("${@:4:$3}")
command -v "${python[0]}" > /dev/null || die "no ${python[0]}: the environment must be there on all nodes"
look='import sys, importlib.util as i; print(*[m for m in sys.argv[1].split() if not i.find_spec(m)])'
missing=$("${python[@]}" -c "$look" "$2" 2>&1) || die "${python[*]}: does not run (${missing##*$'\n'})"
test -z "$missing" || die "${python[*]}: lacks $missing"
shift 3
exec "$@"
"""


class Srun(Launcher):
    """One job step a run. The site file says how many ranks are on a node and what else srun has to know."""

    testbed: Measured
    modules = ("repro.launch.srun",)
    pooled = False  # ranks are on other machines
    no_gpus = "the site file says gpus_per_node: 0; set it to what a node has, or use device=cpu or auto"

    @property
    def fabric(self) -> str:
        name = self.testbed.fabric
        if name not in NEEDED:
            raise unknown("testbed.fabric", str(name), NEEDED)
        return name

    @cached_property
    def site(self) -> sites.Site:
        return sites.load()

    def check(self, ranks: int) -> None:
        _ = self.fabric
        here, on_a_node = self.site, min(self.site.per_node, ranks)
        if here.gpus_per_node and on_a_node > here.gpus_per_node and not here.share_gpus:
            raise InputError(
                f"site file {sites.path()}: {on_a_node} ranks on a node that has gpus_per_node={here.gpus_per_node}: "
                f"too few GPUs for the ranks; set ranks_per_node: {here.gpus_per_node}, or share_gpus: true"
            )

    def hardware_class(self) -> str:
        return self.site.hardware_class()

    def gpus(self) -> bool:
        return self.site.gpus_per_node > 0

    @contextmanager
    def place(
        self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable
    ) -> Iterator[Allocation]:
        if not os.environ.get("SLURM_JOB_ID"):
            raise InputError(
                "testbed slurm: this is not inside a Slurm job; `repro submit EXPERIMENT` starts one for each run, "
                "or allocate nodes with salloc first"
            )
        if self.fabric == "mpi":
            client.need_mpi(self.site.mpi)
        yield Allocation(self.command(ranks, program), self.environment(threads))

    def command(self, ranks: int, program: Sequence[str]) -> list[str]:
        """srun with its options, the check of each node, and Python with `program`, whose last word is the folder."""
        here, mpi = self.site, self.fabric == "mpi"
        python = here.ranks_python
        options = [
            f"--ntasks={ranks}",
            f"--cpus-per-task={here.cpus_per_rank}",  # srun does not take it over from sbatch
            "--distribution=block",  # neighbours in a ring share a node
            "--kill-on-bad-exit=1",
            f"--mpi={here.mpi}" if mpi else "--mpi=none",
        ]
        guard = ["bash", "-c", GUARD, str(PROJECT), program[-1], " ".join(NEEDED[self.fabric]), str(len(python))]
        # without -m mpi4py an uncaught exception in one rank would leave the others waiting
        return ["srun", *options, *here.srun, *guard, *python, *(["-m", "mpi4py"] if mpi else []), *program]

    def environment(self, threads: int) -> dict[str, str]:
        """Of srun, which hands it to the ranks."""
        own = {
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "PYTHONUNBUFFERED": "1",
            "REPRO_PREEMPT": os.environ.get("REPRO_PREEMPT", "2"),
            MASTER: first_host(),
        }
        if interface := self.site.interface:
            names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include")
            own |= dict.fromkeys(names, interface)
        return {**os.environ, **own}


def first_host() -> str:
    """The first host of the allocation, where rank 0 is."""
    hosts = os.environ.get("SLURM_JOB_NODELIST", "")
    shown = subprocess.run(["scontrol", "show", "hostnames", hosts], capture_output=True, text=True)
    return shown.stdout.split()[0] if shown.stdout.split() else socket.gethostname()
