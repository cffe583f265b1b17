"""Host bytes of tensors for libraries that cannot read GPU memory: pinned buffers on the way out and in."""

from __future__ import annotations

from collections.abc import Callable

import torch


def outgoing(tensor: torch.Tensor) -> torch.Tensor:
    """A host tensor of bytes with the payload: the tensor's own memory on a CPU, a pinned copy of a GPU's."""
    flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
    if not flat.is_cuda:
        return flat
    host = torch.empty(flat.shape, dtype=torch.uint8, pin_memory=True)
    host.copy_(flat, non_blocking=True)
    torch.cuda.current_stream(flat.device).synchronize()
    return host


def incoming(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable[[], object]]:
    """A host tensor of bytes to receive into, and what to call when it is full."""
    flat = tensor.detach().view(-1).view(torch.uint8)
    if not flat.is_cuda:
        return flat, lambda: None
    host = torch.empty(flat.shape, dtype=torch.uint8, pin_memory=True)
    return host, lambda: flat.copy_(host)
