"""Finds ranks that do not respond, for errors of waits that have no particular peer."""

from __future__ import annotations

import torch

from repro.fabric.base import CONTROL, Fabric, FabricError

TAG = 4242
SECONDS = 2.0  # ranks that waited for the same operation time out within this span


def find_missing_ranks(fabric: Fabric, seconds: float = SECONDS) -> str:
    """ "; no response from rank 1, 3": the ranks that do not join this call in time; empty if all do.

    A rank calls it when a wait has timed out; so do the others that wait for the same operation.
    """
    message = torch.zeros(1)
    peers = [rank for rank in range(fabric.size) if rank != fabric.rank]
    silent = []
    try:
        expected = [fabric.irecv(torch.empty(1), peer, TAG, CONTROL) for peer in peers]
        for peer in peers:
            fabric.isend(message, peer, TAG, CONTROL)
        for peer, receive in zip(peers, expected):
            try:
                receive.wait(seconds)
            except FabricError:
                silent.append(peer)
    except FabricError:  # no message can be started
        return ""
    return f"; no response from rank {', '.join(map(str, silent))}" if silent else ""
