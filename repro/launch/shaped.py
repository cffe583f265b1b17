"""Launchers for shaped networks: one rank per host, by mpirun or as processes of torch.distributed."""

from __future__ import annotations

import random
import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from repro.core.ethernet import GOODPUT_SHARE
from repro.core.not_none import not_none
from repro.experiment.testbeds import Emulated, Measured
from repro.launch.base import Allocation, Launcher
from repro.launch.local import find_mpirun, rank_environment
from repro.launch.namespaces import network

ENTER = [sys.executable, "-m", "repro.launch.namespaces.enter"]
STARTER = [sys.executable, "-m", "repro.launch.namespaces.starter"]
# Open MPI's settings: mpirun runs in the switch's namespace, a daemon in each host's; TCP only over the shaped links.
# Version 5 has other names for the daemons' settings.
RSH = " ".join([*ENTER, "--rsh"])
OPENMPI = {
    "OMPI_MCA_plm": "rsh",
    "OMPI_MCA_plm_rsh_agent": RSH,
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # only the switch sees the namespace daemon's process
    "OMPI_MCA_orte_leave_session_attached": "1",  # a daemon in the background would end with its shell
    "OMPI_MCA_oob_tcp_if_include": "br0,eth0",
    "OMPI_MCA_orte_tmpdir_base": "/dev/shm",  # private to each host
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "eth0",
    # Long messages go as a pipeline of 128 KB pieces, not as one piece on the receiver's request: if two ranks send to
    # each other, a request would wait behind the other's piece, and the link would carry one direction at a time.
    "OMPI_MCA_btl_tcp_flags": "send",
    "PRTE_MCA_plm": "ssh",
    "PRTE_MCA_plm_ssh_agent": RSH,
    "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    "PRTE_MCA_prte_leave_session_attached": "1",
    "PRTE_MCA_prte_tmpdir_base": "/dev/shm",
}
# NCCL recognises that the hosts are one machine, and would not use the network.
NCCL = {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"}


class Shaped(Launcher):
    """Launcher of testbeds with `rate_gbit`; with `hosts: null` each rank has its own host."""

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
        return not_none(self.testbed.rate_gbit)  # every shaped testbed has a rate

    def check(self, ranks: int) -> None:
        network.check_shaping(self.rate_gbit, self._hosts(ranks), ranks)

    def _hosts(self, ranks: int) -> Any:
        return max(ranks, 2) if self.testbed.hosts is None else self.testbed.hosts

    def allocate(self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable) -> Allocation:
        self.check(ranks)
        net = network.acquire_network(self.rate_gbit, self._hosts(ranks))
        variables = rank_environment(threads) | OPENMPI | NCCL | net.variables | {"GLOO_SOCKET_IFNAME": "eth0"}
        return Allocation(self.command(net, ranks, list(program), python), variables | self.buffers, net.facts)

    @property
    def buffers(self) -> dict[str, str]:
        """Variables for the send buffers of connections; none: the kernel's default."""
        return {}

    @abstractmethod
    def command(self, net: network.ShapedNetwork, ranks: int, program: list[str], python: str) -> list[str]:
        """The command line that starts a rank in each of the first `ranks` hosts, with interpreter `python`."""


class ShapedMpirun(Shaped):
    """mpirun: the MPI fabric over TCP."""

    name = "mpirun"
    fabric = "mpi"

    def command(self, net: network.ShapedNetwork, ranks: int, program: list[str], python: str) -> list[str]:
        used = net.state["hosts"][: min(ranks, net.hosts)]
        hosts = ",".join(f"{host['name']}:{-(-ranks // len(used))}" for host in used)
        mpirun = [find_mpirun(), "--host", hosts, "--map-by", "node", "-n", str(ranks)]
        return [*ENTER, net.state["switch"]["name"], *mpirun, python, "-m", "mpi4py", *program]


class EmulatedMpirun(ShapedMpirun):
    """Emulates a modelled network with real links at a fraction of its rate; rank r is on host r mod hosts."""

    kind = "emulated"
    fabric = "emulated"
    testbed: Emulated

    @property
    def rate_gbit(self) -> float:
        """Line rate of a link, such that payload takes `slow_down` times beta per byte."""
        rate = 8e-9 / (self.testbed.beta_s_per_byte * self.testbed.slow_down * GOODPUT_SHARE)
        return round(rate, 6)

    def check(self, ranks: int) -> None:
        network.check_shaping(self.rate_gbit, self._hosts(ranks))

    @property
    def buffers(self) -> dict[str, str]:
        """Half of `send_buffer`, because the kernel doubles what MPI requests."""
        size = self.testbed.send_buffer
        return {} if size is None else {"OMPI_MCA_btl_tcp_sndbuf": str(size // 2)}


class ShapedTorchrun(Shaped):
    """torch.distributed (gloo or NCCL) without torchrun itself, which would be a second large process in each host."""

    name = "torchrun"
    fabric = "torch"

    def command(self, net: network.ShapedNetwork, ranks: int, program: list[str], python: str) -> list[str]:
        port = random.randint(20000, 30000)  # no other process listens there, but the last run's port may linger
        return [*STARTER, str(ranks), str(port), python, *program]
