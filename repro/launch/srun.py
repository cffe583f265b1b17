"""The launcher for Slurm: srun inside an allocation, with the MPI fabric through PMIx or with torch.distributed.

torch.distributed uses NCCL between GPUs; MPI stages messages of GPUs through host memory.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from repro.core.errors import InputError, unknown_name
from repro.core.paths import PROJECT
from repro.core.processes import MASTER, safe_environment
from repro.experiment.needs import Needs
from repro.experiment.testbeds import Measured
from repro.launch.base import Allocation, Launcher
from repro.launch.slurm import client
from repro.launch.slurm import site as sites
from repro.launch.slurm.site import Site


class Layout(NamedTuple):
    """The node of every rank.

    ranks     number of ranks
    on_gpus   number of ranks with a GPU, which come first
    nodes     number of nodes of the job
    per_node  capacity of a node in ranks
    places    node number of each rank; None: consecutive, as by `srun --distribution=block`
    """

    ranks: int
    on_gpus: int
    nodes: int
    per_node: int
    places: tuple[int, ...] | None = None

    @property
    def tasks(self) -> int:
        """The number of tasks for sbatch; if ranks have places, every node needs its full capacity."""
        return self.ranks if self.places is None else self.nodes * self.per_node

    def hosts(self, names: list[str]) -> str:
        """The hosts in rank order, in the format of `srun --nodelist`; names: of the job's nodes."""
        return ",".join(names[place] for place in self.places or ())  # Slurm 22.05 does not accept NAME*COUNT


def node_layout(site: Site, ranks: int, gpu_ranks: int | None = None) -> Layout:
    """The layout of `ranks` ranks, of which the first `gpu_ranks` compute on GPUs (None: all, if the site has GPUs).

    If any rank has a GPU, the site's ranks per node count only those that do. The others are added to these nodes, last
    node first: a parameter server needs a core, but neither a GPU nor a node of its own.
    """
    on_gpus = min(ranks, ranks if gpu_ranks is None else gpu_ranks) if site.gpus_per_node else 0
    placed = on_gpus or ranks
    nodes, per_node, others = site.nodes(placed), site.on_a_node(placed), ranks - placed
    if not others or nodes == 1:
        return Layout(ranks, on_gpus, nodes, per_node + others)
    places = [rank // per_node for rank in range(placed)] + [nodes - 1 - other % nodes for other in range(others)]
    return Layout(ranks, on_gpus, nodes, per_node + -(-others // nodes), tuple(places))


AUTO = "auto"  # choose the fabric by the run's needs
NEEDED = {"mpi": ("torch", "mpi4py", "repro"), "torch": ("torch", "repro")}
# Runs before each rank: what a node lacks is reported in one line that names the node. $0: the checkout, $1: the run's
# folder, $2: the packages, $3: the number of words that start Python.
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
    """One job step per run; the site file gives the ranks per node and srun's other options."""

    name = "srun"
    testbed: Measured
    modules = ("repro.launch.srun",)
    pooled = False  # ranks are on other machines
    no_gpus = "the site file says gpus_per_node: 0; set it to what a node has, or use device=cpu or auto"

    @property
    def fabric(self) -> str:
        name = self.testbed.fabric
        if name not in NEEDED:
            raise unknown_name("testbed.fabric", str(name), NEEDED)
        return name

    @cached_property
    def site(self) -> sites.Site:
        return sites.load_site()

    def resolved(self, needs: Needs) -> Measured:
        """The testbed with a fabric instead of `auto`, and with the number of ranks that have a GPU if not all have.
        Servers have none, except with NCCL, which cannot send from host memory."""
        from repro.fabric.base import LIBRARIES  # imports PyTorch

        bed = self.testbed
        settings: dict[str, Any] = {}
        if bed.fabric == AUTO:
            library = {LIBRARIES[each] for each in needs.requires & LIBRARIES.keys()}
            settings["fabric"] = min(library, default="mpi" if without_nccl(self.site, needs) else "torch")
        if self.site.gpus_per_node and bed.gpu_ranks is None:
            nccl = settings.get("fabric", bed.fabric) == "torch" and bed.backend != "gloo"
            if not needs.gpu:
                settings["gpu_ranks"] = 0
            elif needs.ranks > needs.workers and not nccl:
                settings["gpu_ranks"] = needs.workers
        return bed.model_copy(update=settings) if settings else bed

    def layout(self, ranks: int) -> Layout:
        return node_layout(self.site, ranks, self.testbed.gpu_ranks)

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
                f"site file {sites.site_path()}: {on_a_node} ranks on a node that has "
                f"gpus_per_node={here.gpus_per_node}: too few GPUs for the ranks; "
                f"set ranks_per_node: {here.gpus_per_node}, or share_gpus: true"
            )

    def hardware_class(self) -> str:
        return self.site.hardware_class()

    def gpus(self) -> bool:
        return self.site.gpus_per_node > 0

    def check_startable(self) -> None:
        if not os.environ.get("SLURM_JOB_ID"):
            raise InputError(
                "testbed slurm: this is not inside a Slurm job; `repro submit EXPERIMENT` starts one for each run, "
                "or allocate nodes with salloc first"
            )

    def allocate(self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable) -> Allocation:
        self.check_startable()
        if self.fabric == "mpi":
            client.need_mpi(self.site.mpi)
        return Allocation(self.command(ranks, program), self.environment(threads))

    def command(self, ranks: int, program: Sequence[str]) -> list[str]:
        """srun with its options, the check of each node, and Python with `program`, which ends with the folder."""
        here, mpi, laid_out = self.site, self.fabric == "mpi", self.layout(ranks)
        python = here.ranks_python
        options = [
            f"--ntasks={ranks}",
            f"--cpus-per-task={here.cpus_per_rank}",  # srun does not inherit it from sbatch
            "--distribution=block",  # neighbours in a ring share a node
            "--kill-on-bad-exit=1",
            f"--mpi={here.mpi}" if mpi else "--mpi=none",
            "--export=ALL",  # else a job submitted with sbatch --export=NONE would pass on no variables
        ]
        if laid_out.places:
            options[2:3] = ["--distribution=arbitrary", f"--nodelist={laid_out.hosts(self.hosts(laid_out.nodes))}"]
        if here.gpus_per_task and laid_out.on_gpus == ranks:
            # --gpus-per-task binds each rank to its own GPU, which prevents copies between GPUs. Without binding a rank
            # sees all GPUs of the job on its node and uses the one of its local number. --gres does not bind; there
            # Slurm 22.05 (tested) responds to --gpu-bind=none by not setting CUDA_VISIBLE_DEVICES.
            options.append("--gpu-bind=none")
        guard = ["bash", "-c", GUARD, str(PROJECT), program[-1], " ".join(NEEDED[self.fabric]), str(len(python))]
        # without -m mpi4py an uncaught exception in one rank would leave the others waiting
        return ["srun", *options, *here.srun, *guard, *python, *(["-m", "mpi4py"] if mpi else []), *program]

    def hosts(self, nodes: int) -> list[str]:
        """The names of the allocated nodes; InputError if there are fewer than `nodes`."""
        names = allocated_hosts()
        if len(names) < nodes:
            raise InputError(f"testbed slurm: the ranks are laid out over {nodes} nodes, and the job has {len(names)}")
        return names

    def environment(self, threads: int) -> dict[str, str]:
        """The environment of srun, which passes it to the ranks."""
        variables = {
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "PYTHONUNBUFFERED": "1",
            "REPRO_PREEMPT": os.environ.get("REPRO_PREEMPT", "2"),
            MASTER: allocated_hosts()[0],  # rank 0 runs there
        }
        if interface := self.site.interface:
            names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include")
            variables |= dict.fromkeys(names, interface)
        return safe_environment() | variables


def without_nccl(site: sites.Site, needs: Needs) -> str:
    """Why a run cannot use NCCL at a site; empty if it can."""
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


def allocated_hosts() -> list[str]:
    """The hosts of the allocation; this host if there is none."""
    hosts = os.environ.get("SLURM_JOB_NODELIST", "")
    shown = subprocess.run(["scontrol", "show", "hostnames", hosts], capture_output=True, text=True)
    return shown.stdout.split() or [socket.gethostname()]
