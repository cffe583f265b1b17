"""An allreduce in two levels: inside machines, and between them."""

from __future__ import annotations

import torch

from repro.fabric.base import MAIN, Fabric
from repro.fabric.collectives.blocks import TAG, cut_vector
from repro.fabric.collectives.dense import ring_allreduce, ring_reduce_scatter


def hierarchical_allreduce(inside: Fabric, across: Fabric, vector: torch.Tensor, channel: int = MAIN) -> None:
    """Sum in place: a reduce-scatter among the ranks of a machine, an allreduce of each rank's block among the ranks of
    other machines with the same block, an allgather inside. inside, across: this rank's groups, in the same order on
    all of their ranks."""
    blocks = cut_vector(vector.view(-1), inside.size)
    ring_allreduce(across, ring_reduce_scatter(inside, vector, channel), channel)
    p, me = inside.size, inside.rank
    for hop in range(p - 1):
        outgoing, incoming = blocks[(me - hop) % p], blocks[(me - hop - 1) % p]
        receive, send = inside.sendrecv(outgoing, (me + 1) % p, incoming, (me - 1) % p, TAG + p + hop, channel)
        receive.wait()
        send.wait()
