"""Ranks started by srun inside a Slurm allocation: the MPI fabric through PMIx, or torch.distributed.

On GPUs torch.distributed is NCCL, from one GPU to the other; MPI's messages of a GPU go through host memory.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from repro.core.errors import InputError, unknown
from repro.core.paths import PROJECT
from repro.experiment.needs import Needs
from repro.experiment.testbeds import Measured
from repro.fabric.real.srun_ranks import MASTER
from repro.launch.base import Allocation, Launcher
from repro.launch.slurm import client
from repro.launch.slurm import site as sites
from repro.launch.slurm.layout import Layout, layout

AUTO = "auto"  # the fabric that suits a run
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

    name = "srun"
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

    def settled(self, needs: Needs) -> Measured:
        """The fabric in the place of `auto`, and how many ranks have a GPU where that is not all: servers have none,
        unless NCCL is asked for, which takes no message from host memory."""
        from repro.fabric.base import LIBRARIES  # imports PyTorch

        bed = self.testbed
        found: dict[str, Any] = {}
        if bed.fabric == AUTO:
            library = {LIBRARIES[each] for each in needs.requires & LIBRARIES.keys()}
            found["fabric"] = min(library, default="mpi" if without_nccl(self.site, needs) else "torch")
        if self.site.gpus_per_node and bed.gpu_ranks is None:
            nccl = found.get("fabric", bed.fabric) == "torch" and bed.backend != "gloo"
            if not needs.gpu:
                found["gpu_ranks"] = 0
            elif needs.ranks > needs.workers and not nccl:
                found["gpu_ranks"] = needs.workers
        return bed.model_copy(update=found) if found else bed

    def layout(self, ranks: int) -> Layout:
        """Where so many ranks are."""
        return layout(self.site, ranks, self.testbed.gpu_ranks)

    def check(self, ranks: int) -> None:
        _ = self.fabric
        bed, with_gpu = self.testbed, self.layout(ranks).on_gpus
        if 0 < with_gpu < ranks and bed.fabric == "torch" and bed.backend != "gloo":
            raise InputError(
                f"testbed.gpu_ranks={with_gpu}: NCCL needs a GPU of each of {ranks} ranks; leave it out, or take "
                "testbed.fabric=mpi or testbed.backend=gloo"
            )
        here, on_a_node = self.site, min(self.site.per_node, with_gpu)
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
        here, mpi, laid_out = self.site, self.fabric == "mpi", self.layout(ranks)
        python = here.ranks_python
        options = [
            f"--ntasks={ranks}",
            f"--cpus-per-task={here.cpus_per_rank}",  # srun does not take it over from sbatch
            "--distribution=block",  # neighbours in a ring share a node
            "--kill-on-bad-exit=1",
            f"--mpi={here.mpi}" if mpi else "--mpi=none",
            "--export=ALL",  # a job whose own environment is new (sbatch --export=NONE) would hand on nothing else
        ]
        if laid_out.places:
            options[2:3] = ["--distribution=arbitrary", f"--nodelist={laid_out.hosts(self.hosts(laid_out.nodes))}"]
        if here.gpus_per_task and laid_out.on_gpus == ranks:
            # Every rank is to see the job's GPUs on its node and take the one of its local number: bound to its own,
            # as --gpus-per-task has it, it could not copy to and from another's. With --gres nothing is bound, and
            # Slurm 22.05 (tried) answers --gpu-bind=none there by no longer saying which GPUs are the job's.
            options.append("--gpu-bind=none")
        guard = ["bash", "-c", GUARD, str(PROJECT), program[-1], " ".join(NEEDED[self.fabric]), str(len(python))]
        # without -m mpi4py an uncaught exception in one rank would leave the others waiting
        return ["srun", *options, *here.srun, *guard, *python, *(["-m", "mpi4py"] if mpi else []), *program]

    def hosts(self, nodes: int) -> list[str]:
        """The names of so many nodes; InputError where the allocation has fewer."""
        names = allocated_hosts()
        if len(names) < nodes:
            raise InputError(f"testbed slurm: the ranks are laid out over {nodes} nodes, and the job has {len(names)}")
        return names

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


def without_nccl(site: sites.Site, needs: Needs) -> str:
    """Why messages of a run do not go by NCCL at a site; empty where they may."""
    from repro.fabric.base import NCCL  # imports PyTorch

    if not (site.gpus_per_node and needs.gpu):
        return "it computes on no GPU"
    if missing := needs.requires - NCCL:
        return f"its strategy needs {', '.join(sorted(missing))}"
    if needs.ranks > needs.workers:
        return "NCCL needs a GPU of a server too"
    if site.on_a_node(needs.ranks) > site.gpus_per_node:
        return "ranks share GPUs"
    return ""


def first_host() -> str:
    """The first host of the allocation, where rank 0 is."""
    return allocated_hosts()[0]


def allocated_hosts() -> list[str]:
    """The hosts of the allocation; this one where there is none."""
    hosts = os.environ.get("SLURM_JOB_NODELIST", "")
    shown = subprocess.run(["scontrol", "show", "hostnames", hosts], capture_output=True, text=True)
    return shown.stdout.split() or [socket.gethostname()]
