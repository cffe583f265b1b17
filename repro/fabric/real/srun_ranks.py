"""Sets the environment variables that torch.distributed reads from those of a Slurm task."""

from __future__ import annotations

import os
import re
import socket
from typing import Any

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
