"""Which GPUs ranks see and use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from repro.core.errors import InputError
from repro.core.processes import local_rank


def pick_device(wanted: str, rank: int) -> torch.device:
    """This rank's GPU (ranks share GPUs round-robin if there are fewer), or the CPU. wanted: auto, cpu or cuda."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device=cuda: torch {torch.__version__} sees no working GPU here; use device=cpu")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", local_rank(otherwise=rank) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def visible_gpus(device: str) -> tuple[str, ...]:
    """The ids of the GPUs that this rank may use; `device` as in the configuration."""
    if device == "cpu" or not torch.cuda.is_available():
        return ()
    return tuple(str(torch.cuda.get_device_properties(index).uuid) for index in range(torch.cuda.device_count()))


def gpu_of(device: str, rank: int) -> str | None:
    """The id of the GPU that `pick_device` gives to this rank; None: the CPU."""
    gpus = visible_gpus(device)
    return gpus[local_rank(otherwise=rank) % len(gpus)] if gpus else None


def mps_runs() -> bool:
    """Whether NVIDIA's Multi-Process Service runs for this environment: its control pipe has a reader."""
    control = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control")
    try:
        os.close(os.open(control, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # it does not exist, or its reader has ended
        return False
    return True


def too_few_gpus(everybody: Sequence[Any]) -> str | None:
    """An error that names the fullest host if two ranks would share a GPU, which NCCL refuses; else None.

    everybody: for each rank an object with `host`, `gpu` and `gpus`.
    """
    used = [(each.host, each.gpu) for each in everybody]
    if len(set(used)) == len(used) and all(each.gpu for each in everybody):
        return None
    hosts = ranks_by_value([each.host for each in everybody])
    seen = {host: len({gpu for rank in ranks for gpu in everybody[rank].gpus}) for host, ranks in hosts.items()}
    host = max(hosts, key=lambda name: len(hosts[name]) - seen[name])
    return (
        f"too few GPUs for the ranks: host {host} has {seen[host]} for {len(hosts[host])} ranks, and NCCL needs one "
        f"for each; start fewer ranks on a host, or let ranks share a GPU: testbed.backend=gloo, or the MPI fabric"
    )


def ranks_by_value(values: Sequence[str]) -> dict[str, list[int]]:
    """Value -> the ranks that have it."""
    groups: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        groups.setdefault(value, []).append(rank)
    return groups
