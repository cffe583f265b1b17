"""Who is still there, for a message about a wait that a library could not explain."""

from __future__ import annotations

import torch

from repro.fabric.base import CONTROL, Fabric, FabricError

TAG = 4242
SECONDS = 2.0  # ranks that waited for the same thing pass their limits within this


def find_missing_ranks(fabric: Fabric, seconds: float = SECONDS) -> str:
    """ "; no word from rank 1, 3": the ranks that do not join this call in time; empty if all do.

    Called by a rank that is about to give up; those that wait for the same thing do the same.
    """
    word = torch.zeros(1)
    peers = [rank for rank in range(fabric.size) if rank != fabric.rank]
    silent = []
    try:
        expected = [fabric.irecv(torch.empty(1), peer, TAG, CONTROL) for peer in peers]
        for peer in peers:
            fabric.isend(word, peer, TAG, CONTROL)
        for peer, receive in zip(peers, expected):
            try:
                receive.wait(seconds)
            except FabricError:
                silent.append(peer)
    except FabricError:  # not even a message can be started
        return ""
    return f"; no word from rank {', '.join(map(str, silent))}" if silent else ""
