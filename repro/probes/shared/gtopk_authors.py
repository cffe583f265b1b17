"""gTop-k as its authors published it, for comparison: the algorithm of hclhkbu/gtopkssgd, on mpi4py and NumPy.

Selection by torch.topk over the whole vector with a mask for the residual; messages of int64 places and float32 values
widened to float64 together (16 bytes an element); a tree of blocking sends with a barrier after each round, each merge
an intersection and a full sort of 2k magnitudes; MPI's own broadcast. Powers of two only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def select(gradient: torch.Tensor, residual: torch.Tensor, mask: torch.Tensor, k: int) -> tuple[Any, Any]:
    """(values, places) of the k largest of gradient + residual (n,), which becomes what is left; mask: scratch (n,)."""
    total = gradient + residual
    places = torch.topk(total.abs(), k).indices
    values = total[places]
    mask.fill_(1.0)
    mask[places] = 0.0
    torch.mul(total, mask, out=residual)
    return values.numpy(), places.numpy()


def message(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(2k,) float64."""
    return np.concatenate((places, values))


def allreduce(comm: Any, values: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(values, places) of the global top-k."""
    k = len(values)
    values, sent = values.copy(), message(values, places)
    received = np.zeros_like(sent)
    active = list(range(comm.size))
    while len(active) > 1:
        if comm.rank in active:
            place = active.index(comm.rank)
            if place % 2:
                comm.Send(sent, active[place - 1])
            else:
                comm.Recv(received, active[place + 1])
                values, places = merge(values, places, received[k:].copy(), received[:k].astype(np.int64))
                sent = message(values, places)
        active = active[::2]
        comm.Barrier()
    comm.Bcast(sent if comm.rank == 0 else received, 0)
    if comm.rank:
        places, values = received[:k].astype(np.uint32), received[k:].astype(np.float32)
    return values.astype(np.float32), places.astype(np.int64)


def merge(
    values: np.ndarray, places: np.ndarray, theirs: np.ndarray, their_places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest in magnitude of two sparse vectors' sum."""
    k = len(values)
    _, here, there = np.intersect1d(places, their_places, return_indices=True)
    values[here] += theirs[there]
    theirs[there] = 0.0
    both = np.concatenate((values, theirs))
    top = np.abs(both).argsort()[-k:]
    ours, others = top[top < k], top[top >= k] - k
    return np.concatenate((values[ours], theirs[others])), np.concatenate((places[ours], their_places[others]))


def included(mine: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Which of this rank's places are in the global top-k."""
    return np.intersect1d(mine, places, return_indices=True)[1]


def put_back(residual: torch.Tensor, values: np.ndarray, places: np.ndarray, included: np.ndarray) -> None:
    """What was selected here and is not in the global top-k, into the residual (n,)."""
    values = values.copy()
    values[included] = 0.0
    residual[torch.from_numpy(places)] += torch.from_numpy(values)
