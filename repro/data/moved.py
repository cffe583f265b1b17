"""What was made on the host, moved to where it is computed with."""

from __future__ import annotations

import torch


def moved(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """A host tensor on `device`, itself where that is the host. On a GPU the copy comes in its turn: the host would
    else wait, every minibatch, until the GPU has done all that it was asked for before."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
