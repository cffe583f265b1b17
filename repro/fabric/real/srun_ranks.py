"""What a rank that srun has started knows of itself, in the words that torch.distributed reads."""

from __future__ import annotations

import os
import re
import socket
from typing import Any

MASTER = "REPRO_FIRST_HOST"  # set by our launcher for the ranks of its own srun: the host of rank 0


def translate(fabric: str) -> None:
    """Slurm's words for rank and place, as torch expects them; nothing where the ranks came by another launcher."""
    if MASTER in os.environ and "SLURM_PROCID" in os.environ:
        os.environ.update(rank_environment(os.environ, fabric))


def rank_environment(given: Any, fabric: str) -> dict[str, str]:
    """From Slurm's variables of a task to those that torch.distributed reads; LOCAL_RANK chooses the GPU."""
    found = {"LOCAL_RANK": given["SLURM_LOCALID"]}
    if fabric == "torch":
        # the most on any node: all ranks must come to the same backend
        most = max(tasks_per_node(given.get("SLURM_STEP_TASKS_PER_NODE") or given.get("SLURM_TASKS_PER_NODE", "1")))
        found |= {
            "RANK": given["SLURM_PROCID"],
            "WORLD_SIZE": given.get("SLURM_STEP_NUM_TASKS") or given["SLURM_NTASKS"],
            "LOCAL_WORLD_SIZE": str(most),
            "MASTER_ADDR": reachable(given.get(MASTER, ""), given.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1")),
            "MASTER_PORT": str(port(given)),
        }
    return found


def port(given: Any) -> int:
    """The same on all ranks, another for each job, restart of it (which keeps its number) and step."""
    number = [int(given.get(f"SLURM_{name}") or 0) for name in ("JOB_ID", "RESTART_COUNT", "STEP_ID")]
    return 20000 + (10 * number[0] + 3 * number[1] + number[2]) % 10000


def tasks_per_node(text: str) -> list[int]:
    """Slurm's short form, as in 2(x3),1: the numbers of tasks on the nodes."""
    found: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        found += [int(count)] * int(times or 1)
    return found or [1]


def reachable(host: str, otherwise: str) -> str:
    """The host, where its name can be resolved; else the address that srun was started from, which is the same node."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return otherwise
    return host if host else otherwise
