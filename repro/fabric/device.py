"""Which device a rank computes on."""

from __future__ import annotations

import torch

from repro.common.errors import InputError
from repro.common.processes import local_rank


def pick_device(wanted: str, rank: int) -> torch.device:
    """The GPU of this rank (ranks share GPUs in turn where there are fewer), or the CPU; wanted: auto, cpu or cuda."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device=cuda: torch {torch.__version__} sees no working GPU here; use device=cpu")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", local_rank(otherwise=rank) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device
