"""Starts torch.distributed with a backend that suits all ranks: NCCL if each has a GPU of its own, else gloo.

A rank cannot decide alone: another host may have fewer GPUs, and under Slurm a rank may see only its own. So the ranks
first exchange their GPUs through torch's store. Not yet run on GPUs: the tests use fake ones.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from repro.core.errors import InputError, unknown_name
from repro.fabric.base import FabricError
from repro.fabric.real.gpus import gpu_of, pick_device, too_few_gpus, visible_gpus
from repro.fabric.real.nccl import NcclFabric
from repro.fabric.real.torch_dist import TorchFabric

BACKENDS = ("auto", "gloo", "nccl")


@dataclass(frozen=True)
class Seat:
    """Where a rank computes: its host, its GPU's id (None: on the CPU), the ids of all GPUs that it sees."""

    host: str
    gpu: str | None
    gpus: tuple[str, ...] = ()


def start(device: str, backend: str = "auto", timeout_s: float = 120.0) -> TorchFabric:
    """The fabric of a rank that torchrun, srun or a like launcher has started (RANK, WORLD_SIZE, MASTER_ADDR, ...).

    device: as in the configuration. backend: "gloo", "nccl" or "auto". InputError, the same on all ranks, if backend is
    "nccl" and two ranks would share a GPU; FabricError if the ranks do not meet within `timeout_s`.
    """
    if backend not in BACKENDS:
        raise unknown_name("testbed.backend", str(backend), BACKENDS)
    if device == "cpu" and backend != "nccl":
        return TorchFabric("gloo", timeout_s)
    limit = timedelta(seconds=timeout_s)
    try:
        store, rank, size = next(rendezvous("env://", timeout=limit))
        store.set_timeout(limit)
        mine = Seat(socket.gethostname(), gpu_of(device, rank), visible_gpus(device))
        chosen = choose_backend(gather_seats(store, rank, size, mine), backend)
        group = dist.PrefixStore("repro", store)
        dist.init_process_group(chosen, store=group, rank=rank, world_size=size, timeout=limit)
    except ValueError as error:
        raise InputError(f"torch.distributed: {error}; start the ranks with torchrun or srun") from None
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise FabricError(f"the ranks did not all meet within {timeout_s:g} s ({reason})") from None
    if chosen == "nccl":
        pick_device(device, rank)  # the fabric's first collective uses the current GPU
        return NcclFabric(timeout_s)
    return TorchFabric(chosen, timeout_s)


def gather_seats(store: Any, rank: int, size: int, mine: Seat) -> list[Seat]:
    """Every rank's seat in rank order; blocks until all have stored theirs."""
    store.set(f"seat/{rank}", pickle.dumps(mine))
    return [pickle.loads(store.get(f"seat/{other}")) for other in range(size)]


def choose_backend(seats: Sequence[Seat], backend: str = "auto") -> str:
    """ "nccl" or "gloo", the same for the same seats."""
    problem = too_few_gpus(seats)
    if backend == "nccl" and problem:
        raise InputError(problem)
    return backend if backend != "auto" else "gloo" if problem else "nccl"
