"""An allreduce with the traffic of a parameter server that has a shard on every worker."""

from __future__ import annotations

import torch

from repro.fabric.base import MAIN, Fabric
from repro.fabric.codecs import NoCodec
from repro.fabric.collectives.blocks import TAG, cut_vector, reduce_cost
from repro.fabric.meta_tensors import add_tensor, clone_tensor, empty_like


def sharded_server_allreduce(fabric: Fabric, vector: torch.Tensor, channel: int = MAIN) -> None:
    """Each rank serves a chunk: it receives all ranks' parts of it, adds them in rank order and sends all the sum.

    As in GeePS and PipeDream (section 4) each rank sends 2 (p-1)/p n bytes and receives as many, 4 (p-1)/p n in all
    (section 3.2): 2 alpha + 2 (p-1)/p n beta (+ (p-1)/p n gamma). A server that updates weights elementwise and returns
    them has the same traffic, and the same bits as ranks that all update with the sum.
    """
    p, me = fabric.size, fabric.rank
    shards = cut_vector(vector.view(-1), p)
    others = [(me + step) % p for step in range(1, p)]  # so that not all start with the same rank
    parts = {rank: empty_like(shards[me]) for rank in others} | {me: shards[me]}
    with fabric.batch(channel):
        pushes = {rank: fabric.irecv(parts[rank], rank, TAG, channel) for rank in others}
        sends = [fabric.isend(shards[rank], rank, TAG, channel) for rank in others]
    for rank in range(p):
        if rank != me:
            pushes[rank].wait()
        if rank == 0:
            total = clone_tensor(parts[0])
            continue
        with fabric.compute(reduce_cost(fabric, parts[rank].numel(), NoCodec()), "host"):
            add_tensor(total, parts[rank])
    for send in sends:
        send.wait()  # before their memory is received into
    with fabric.batch(channel):
        pulls = [fabric.irecv(shards[rank], rank, TAG + 1, channel) for rank in others]
        shards[me].copy_(total)
        replies = [fabric.isend(shards[me], rank, TAG + 1, channel) for rank in others]
    for work in (*pulls, *replies):
        work.wait()
