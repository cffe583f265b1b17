"""gTop-k as its authors published it (hclhkbu/gtopkssgd, on mpi4py and NumPy), as a baseline.

It selects by torch.topk over the whole vector, with a mask for the residual. A message holds indices and values, both
as float64 (16 bytes an element). A tree of blocking sends has a barrier after each round; each merge is an intersection
and a full sort of 2k magnitudes. MPI broadcasts the result. The number of ranks must be a power of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def select_topk(gradient: torch.Tensor, residual: torch.Tensor, mask: torch.Tensor, k: int) -> tuple[Any, Any]:
    """(values, indices) of the k largest of gradient + residual (n,); `residual` keeps the rest. mask: scratch (n,)."""
    total = gradient + residual
    indices = torch.topk(total.abs(), k).indices
    values = total[indices]
    mask.fill_(1.0)
    mask[indices] = 0.0
    torch.mul(total, mask, out=residual)
    return values.numpy(), indices.numpy()


def gtopk_allreduce(comm: Any, values: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(values, indices) of the global top-k."""
    k = len(values)
    values, sent = values.copy(), np.concatenate((indices, values))  # (2k,) float64
    received = np.zeros_like(sent)
    active = list(range(comm.size))
    while len(active) > 1:
        if comm.rank in active:
            position = active.index(comm.rank)
            if position % 2:
                comm.Send(sent, active[position - 1])
            else:
                comm.Recv(received, active[position + 1])
                values, indices = merge_topk(values, indices, received[k:].copy(), received[:k].astype(np.int64))
                sent = np.concatenate((indices, values))
        active = active[::2]
        comm.Barrier()
    comm.Bcast(sent if comm.rank == 0 else received, 0)
    if comm.rank:
        indices, values = received[:k].astype(np.uint32), received[k:].astype(np.float32)
    return values.astype(np.float32), indices.astype(np.int64)


def merge_topk(
    values: np.ndarray, indices: np.ndarray, other_values: np.ndarray, other_indices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest in magnitude of two sparse vectors' sum."""
    k = len(values)
    _, here, there = np.intersect1d(indices, other_indices, return_indices=True)
    values[here] += other_values[there]
    other_values[there] = 0.0
    both = np.concatenate((values, other_values))
    top = np.abs(both).argsort()[-k:]
    ours, others = top[top < k], top[top >= k] - k
    return np.concatenate((values[ours], other_values[others])), np.concatenate((indices[ours], other_indices[others]))


def put_back(residual: torch.Tensor, values: np.ndarray, indices: np.ndarray, top: np.ndarray) -> None:
    """Add the values selected here whose indices are not in the global top-k to the residual (n,)."""
    values = values.copy()
    values[np.intersect1d(indices, top, return_indices=True)[1]] = 0.0
    residual[torch.from_numpy(indices)] += torch.from_numpy(values)
