"""Collectives of sparse gradients (gTop-k, Algorithms 1 and 3), for any number of ranks.

Closed forms of their times are in `repro.algorithms.timing.sparse_forms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from repro.core.errors import unknown_name
from repro.fabric.base import MAIN, Fabric
from repro.fabric.collectives.blocks import TAG
from repro.fabric.collectives.dense import binomial_broadcast, ring_allgather
from repro.fabric.sparse.gradients import Sparse, Wire, merge_topk


@dataclass(frozen=True)
class Reduced:
    """The result of `gtopk_allreduce` on a rank.

    kept      the global top-k, the same bits on all ranks: sums over ranks without the parts dropped on the way
    dropped   the partial sums that this rank's merges did not keep
    rounding  the errors of this rank's codec in the values that it sent
    """

    kept: Sparse
    dropped: list[Sparse] = field(default_factory=list)
    rounding: list[Sparse] = field(default_factory=list)


def doubling_allgather(fabric: Fabric, mine: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
    """Every rank's tensor in rank order: ceil(log2 P) alpha + (P-1) n beta for n bytes a rank, as in equation (6).

    Bruck's algorithm (Bruck, Ho, Kipnis, Upfal, Weathersby, 1997) has the rounds and bytes of recursive doubling for
    any number of ranks: in round i a rank sends all tensors that it has, or as many as are missing, to the rank 2^i
    below, and receives as many from the rank 2^i above.
    """
    p, me = fabric.size, fabric.rank
    held = mine.new_empty(p, mine.numel())  # row j: the tensor of rank me + j
    held[0] = mine.view(-1)
    have = 1
    while have < p:
        count = min(have, p - have)
        outgoing, incoming = held[:count].view(-1), held[have : have + count].view(-1)
        receive, send = fabric.sendrecv(outgoing, (me - have) % p, incoming, (me + have) % p, TAG + have, channel)
        receive.wait()
        send.wait()
        have += count
    return [held[(rank - me) % p].view(mine.shape) for rank in range(p)]


ALLGATHERS = {"doubling": doubling_allgather, "ring": ring_allgather}


def check_allgather(name: str) -> None:
    """InputError unless the allgather exists."""
    if name not in ALLGATHERS:
        raise unknown_name("allgather", name, ALLGATHERS)


def topk_allgather(
    fabric: Fabric, message: torch.Tensor, wire: Wire, channel: int = MAIN, algorithm: str = "doubling"
) -> list[Sparse]:
    """Every rank's elements in rank order (Algorithm 1, lines 13 and 14); `message` has this rank's, packed."""
    check_allgather(algorithm)
    return [wire.unpack(packed) for packed in ALLGATHERS[algorithm](fabric, message, channel)]


def gtopk_allreduce(fabric: Fabric, mine: Sparse, wire: Wire, channel: int = MAIN) -> Reduced:
    """Algorithm 3: a tree of top-k operations to rank 0, then a broadcast: 2 alpha log2 P + 16 k beta log2 P.

    It works for any number of ranks: a rank without partner in a round waits for the next. Corrected against the paper
    (errata.md, GK-4): round i is among ranks 0, 2^(i-1), 2 x 2^(i-1) ...; Barrier() (line 17) is unnecessary, because a
    receive waits for its message; the broadcast with log2 P rounds is a binomial tree.
    """
    p, me = fabric.size, fabric.rank
    sends = mine  # line 1
    rests, rounding = [], []
    message = wire.empty(mine.values.device)  # recvs of line 2, and what is broadcast
    distance = 1
    while distance < p:  # lines 4 to 6: rounds with the ranks that are multiples of `distance`
        if me % (2 * distance) == 0:  # line 8
            if me + distance < p:
                fabric.recv(message, me + distance, TAG + distance, channel)  # lines 9, 10
                with fabric.compute(fabric.costs.seconds("merge", 2 * wire.bytes), "host"):
                    sends, rest = merge_topk(sends, wire.unpack(message), wire.k)  # line 11
                rests.append(rest)
        else:
            packed = wire.pack(sends)
            rounding += wire.rounding(sends, packed)
            fabric.send(packed, me - distance, TAG + distance, channel)  # lines 13, 14
            break
        distance *= 2
    if me == 0:
        message = wire.pack(sends)
        rounding += wire.rounding(sends, message)
    binomial_broadcast(fabric, message, 0, channel)  # line 19
    dropped = [rest() for rest in rests]  # only now, as no other rank waits for it
    return Reduced(wire.unpack(message), dropped, rounding)  # lines 20 to 23; the mask is `Sparse.indices_in`
