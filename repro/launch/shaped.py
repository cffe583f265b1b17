"""Ranks in the hosts of a shaped network, one a host: by mpirun, or as processes of torch.distributed."""

from __future__ import annotations

import random
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from repro.core.not_none import not_none
from repro.experiment.testbeds import Emulated, Measured
from repro.launch.base import Allocation, Launcher
from repro.launch.local import environment, find_mpirun
from repro.launch.namespaces import links, network

ENTER = [sys.executable, "-m", "repro.launch.namespaces.enter"]
STARTER = [sys.executable, "-m", "repro.launch.namespaces.starter"]
# OpenMPI, by environment: mpirun in the switch's namespace, a daemon in each host's, TCP over the shaped links alone.
# Settings for daemons have names of their own in version 5.
RSH = " ".join([*ENTER, "--rsh"])
OPENMPI = {
    "OMPI_MCA_plm": "rsh",
    "OMPI_MCA_plm_rsh_agent": RSH,
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # only the switch sees the keeper's process
    "OMPI_MCA_orte_leave_session_attached": "1",  # a daemon that went into the background would end with its shell
    "OMPI_MCA_oob_tcp_if_include": "br0,eth0",
    "OMPI_MCA_orte_tmpdir_base": "/dev/shm",  # each host's own, gone with it
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "eth0",
    # Long messages as a pipeline of 128 KB, not in one piece at the receiver's demand: where two ranks send to each
    # other, a demand would wait behind the other piece, and the full-duplex link would be used one way at a time.
    "OMPI_MCA_btl_tcp_flags": "send",
    "PRTE_MCA_plm": "ssh",
    "PRTE_MCA_plm_ssh_agent": RSH,
    "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    "PRTE_MCA_prte_leave_session_attached": "1",
    "PRTE_MCA_prte_tmpdir_base": "/dev/shm",
}
# NCCL takes ranks of one machine for neighbours, whatever their names.
NCCL = {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"}


class Shaped(Launcher):
    """A testbed with `rate_gbit`; `hosts` null: one a rank."""

    limited = True
    testbed: Measured | Emulated
    modules = (
        "repro.launch.local",
        "repro.launch.shaped",
        "repro.launch.namespaces.enter",
        "repro.launch.namespaces.links",
        "repro.launch.namespaces.linux",
        "repro.launch.namespaces.starter",
    )

    @property
    def rate_gbit(self) -> float:
        assert self.testbed.kind == "measured"
        return not_none(self.testbed.rate_gbit)  # what makes a testbed a shaped one

    def check(self, ranks: int) -> None:
        network.check(self.rate_gbit, self._hosts(ranks), ranks)

    def _hosts(self, ranks: int) -> Any:
        given = self.testbed.hosts
        return max(ranks, 2) if given is None else given

    @contextmanager
    def place(
        self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable
    ) -> Iterator[Allocation]:
        self.check(ranks)
        net = network.acquire(self.rate_gbit, self._hosts(ranks))
        variables = environment(threads) | OPENMPI | NCCL | net.variables | {"GLOO_SOCKET_IFNAME": "eth0"}
        yield Allocation(self.command(net, ranks, list(program), python), variables | self.buffers, net.facts)

    @property
    def buffers(self) -> dict[str, str]:
        """Variables of what a connection keeps of messages that are not on the link yet: what the kernel has set."""
        return {}

    @abstractmethod
    def command(self, net: network.ShapedNetwork, ranks: int, program: list[str], python: str) -> list[str]:
        """The command line that starts a rank in each of the first `ranks` hosts, by `python`."""


class ShapedMpirun(Shaped):
    """The MPI fabric, over TCP."""

    name = "mpirun"
    fabric = "mpi"

    def command(self, net: network.ShapedNetwork, ranks: int, program: list[str], python: str) -> list[str]:
        used = net.state["hosts"][: min(ranks, net.hosts)]
        hosts = ",".join(f"{host['name']}:{-(-ranks // len(used))}" for host in used)
        mpirun = [find_mpirun(), "--host", hosts, "--map-by", "node", "-n", str(ranks)]
        return [*ENTER, net.state["switch"]["name"], *mpirun, python, "-m", "mpi4py", *program]


class EmulatedMpirun(ShapedMpirun):
    """A modelled testbed's network with real links at a fraction of its rate; rank r is on host r mod hosts."""

    kind = "emulated"
    fabric = "emulated"
    testbed: Emulated

    @property
    def rate_gbit(self) -> float:
        """Of a link's line, whose payload then takes `slow_down` times beta a byte."""
        rate = 8e-9 / (self.testbed.beta_s_per_byte * self.testbed.slow_down * links.GOODPUT_SHARE)
        return round(rate, 6)

    def check(self, ranks: int) -> None:
        network.check(self.rate_gbit, self._hosts(ranks))

    @property
    def buffers(self) -> dict[str, str]:
        """MPI asks the kernel for half of what the kernel then gives."""
        given = self.testbed.send_buffer
        return {} if given is None else {"OMPI_MCA_btl_tcp_sndbuf": str(given // 2)}


class ShapedTorchrun(Shaped):
    """torch.distributed without torchrun, which would be a second large process in each host: gloo, or NCCL."""

    name = "torchrun"
    fabric = "torch"

    def command(self, net: network.ShapedNetwork, ranks: int, program: list[str], python: str) -> list[str]:
        port = random.randint(20000, 30000)  # nobody else listens there; the last run's port may still be fading away
        return [*STARTER, str(ranks), str(port), python, *program]
