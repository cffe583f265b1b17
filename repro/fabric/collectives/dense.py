"""The papers' collectives for dense vectors, written on send and receive for any number of ranks.

Each has a fixed order of summation, so that the same algorithm on the same fabric gives the same bits. Closed forms of
their times are in `repro.algorithms.timing`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from repro.core.errors import unknown_name
from repro.fabric.base import MAIN, DoneWork, Fabric, Work
from repro.fabric.codecs import Codec, NoCodec
from repro.fabric.collectives.blocks import TAG, chunk_bounds, cut_vector, piece_bounds, reduce_cost, spend_sync
from repro.fabric.collectives.pipelined import ring_pipelined, ring_pipelined_encoded
from repro.fabric.collectives.sharded import sharded_server_allreduce
from repro.fabric.meta_tensors import add_tensor, clone_tensor, empty_like


def ring_allreduce_encoded(
    fabric: Fabric,
    blocks: list[torch.Tensor],
    lengths: list[int],
    codec: Codec,
    channel: int = MAIN,
    half_duplex: bool = False,
) -> list[torch.Tensor]:
    """Ring allreduce on compressed blocks (Pipe-SGD Figure 2 (c); 3.2: the codec sits inside each hop).

    blocks: this rank's gradient as `size` wire tensors, block i of `lengths[i]` elements. Returns the wire tensors of
    the sum, the same bytes on every rank: the rank that completes a block encodes it, the others forward it unchanged.
    half_duplex: a rank sends and receives one after the other in each hop, as blocking calls do, even ranks send first.
    """
    exchange = _exchange_in_turns if half_duplex else fabric.__class__.sendrecv
    p, me = fabric.size, fabric.rank
    right, left = (me + 1) % p, (me - 1) % p
    blocks = list(blocks)
    # The block that each of p = 4 ranks sends to its right; + the receiver adds it, = it is complete and replaces:
    #   hop      0   1   2     0   1   2
    #   rank 0   0+  3+  2+    1=  0=  3=
    #   rank 1   1+  0+  3+    2=  1=  0=
    #   rank 2   2+  1+  0+    3=  2=  1=
    #   rank 3   3+  2+  1+    0=  3=  2=
    spend_sync(fabric)
    # one buffer for all hops, because new pages would cost more than the addition
    buffers = empty_like(max(blocks, key=len))
    for hop in range(p - 1):  # transmit and reduce
        outgoing, incoming = (me - hop) % p, (me - hop - 1) % p
        buffer = buffers[: len(blocks[incoming])]
        receive, send = exchange(fabric, blocks[outgoing], right, buffer, left, TAG + hop, channel)
        receive.wait()
        with fabric.compute(reduce_cost(fabric, lengths[incoming], codec), "host"):
            blocks[incoming] = codec.add(blocks[incoming], buffer, lengths[incoming])
        send.wait()
    for hop in range(p - 1):  # send back reduced results
        outgoing, incoming = (me + 1 - hop) % p, (me - hop) % p
        buffer = blocks[incoming] if codec.lossless else empty_like(blocks[incoming])
        receive, send = exchange(fabric, blocks[outgoing], right, buffer, left, TAG + p + hop, channel)
        receive.wait()
        blocks[incoming] = buffer
        send.wait()
    return blocks


def _exchange_in_turns(
    fabric: Fabric, outgoing: torch.Tensor, to: int, incoming: torch.Tensor, source: int, tag: int, channel: int
) -> tuple[Work, Work]:
    """As `Fabric.sendrecv`, finished on return: even ranks send, then receive; odd ranks receive, then send."""
    if fabric.rank % 2 == 0:
        fabric.send(outgoing, to, tag, channel)
    fabric.recv(incoming, source, tag, channel)
    if fabric.rank % 2:
        fabric.send(outgoing, to, tag, channel)
    return DoneWork(), DoneWork()


def ring_allreduce(fabric: Fabric, vector: torch.Tensor, channel: int = MAIN, half_duplex: bool = False) -> None:
    """Sum in place: 2(p-1) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma (+ S); for an even p half-duplex, alpha and beta
    count twice."""
    flat = vector.view(-1)
    blocks = cut_vector(flat, fabric.size)
    ring_allreduce_encoded(fabric, blocks, [block.numel() for block in blocks], NoCodec(), channel, half_duplex)


def ring_reduce_scatter(fabric: Fabric, vector: torch.Tensor, channel: int = MAIN) -> torch.Tensor:
    """The sum of chunk `rank`, a view of `vector`, whose rest is overwritten: (p-1)(alpha + n/p (beta + gamma))."""
    p, me = fabric.size, fabric.rank
    blocks = cut_vector(vector.view(-1), p)
    for hop in range(p - 1):
        outgoing, incoming = (me - hop - 1) % p, (me - hop - 2) % p
        buffer = empty_like(blocks[incoming])
        receive, send = fabric.sendrecv(blocks[outgoing], (me + 1) % p, buffer, (me - 1) % p, TAG + hop, channel)
        receive.wait()
        with fabric.compute(reduce_cost(fabric, buffer.numel(), NoCodec()), "host"):
            add_tensor(blocks[incoming], buffer)
        send.wait()
    return blocks[me]


def ring_allgather(fabric: Fabric, mine: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
    """Every rank's tensor, in rank order: (p-1)(alpha + n beta) for n bytes a rank."""
    p, me = fabric.size, fabric.rank
    gathered = [clone_tensor(mine) if rank == me else empty_like(mine) for rank in range(p)]
    for hop in range(p - 1):
        outgoing, incoming = gathered[(me - hop) % p], gathered[(me - hop - 1) % p]
        receive, send = fabric.sendrecv(outgoing, (me + 1) % p, incoming, (me - 1) % p, TAG + hop, channel)
        receive.wait()
        send.wait()
    return gathered


def recursive_doubling_allreduce(fabric: Fabric, vector: torch.Tensor, channel: int = MAIN, paced: bool = True) -> None:
    """Sum in place: log2(p) (alpha + n beta + n gamma) for p a power of two (Thakur et al., Pipe-SGD's reference [47]).

    Otherwise each rank beyond the largest power of two first adds its vector into a partner's, and gets the result at
    the end: one more round each way.

    Ranks that add no such vector are one round ahead. If one of them sent at once to a partner that is not, its message
    would share the partner's link with the message for which the partner waits, and delay it. With `paced` it first
    waits for an empty message which the sender of that other message sends after it. Without `paced` it sends at once;
    a rank beyond the power of two then has the sum up to alpha sooner after the others.
    """
    p, me = fabric.size, fabric.rank
    flat = vector.view(-1)
    core = 1 << (p.bit_length() - 1)
    extra = p - core
    buffer = empty_like(flat)
    cost = reduce_cost(fabric, flat.numel(), NoCodec())
    # The ranks whose sum each of p = 6 ranks holds (core = 4, extra = 2):
    #   rank         0       1       2       3       4    5
    #   before       04      15      2       3       4    5      4 -> 0, 5 -> 1
    #   distance 1   0145    0145    23      23                  0 <-> 1, 2 <-> 3
    #   distance 2   all     all     all     all                 0 <-> 2, 1 <-> 3
    #   after                                        all  all    0 -> 4, 1 -> 5

    def left(to: int, distance: int) -> None:
        """A message to rank `to` has left: notify that rank's next partner, at `distance`, if it waits for this."""
        if paced and distance < core and is_ahead(to ^ distance, distance, extra):
            fabric.send(flat[:0], to ^ distance, TAG + 1 + distance, channel)

    if me >= core:
        fabric.send(flat, me - core, TAG, channel)
        left(me - core, 1)
        fabric.recv(flat, me - core, TAG + 1, channel)
        return
    if me < extra:
        fabric.recv(buffer, me + core, TAG, channel)
        with fabric.compute(cost, "host"):
            add_tensor(flat, buffer)
    distance = 1
    while distance < core:
        partner = me ^ distance
        if paced and is_ahead(me, distance, extra):
            # the rank whose message to the partner goes first
            before = partner + core if distance == 1 else partner ^ distance // 2
            fabric.recv(flat[:0], before, TAG + 1 + distance, channel)
        receive, send = fabric.sendrecv(flat, partner, buffer, partner, TAG + 1 + distance, channel)
        send.wait()
        left(partner, 2 * distance)
        receive.wait()
        with fabric.compute(cost, "host"):
            add_tensor(flat, buffer)  # the addition of two floats is commutative, so both partners get the same bits
        distance *= 2
    if me < extra:
        fabric.send(flat, me + core, TAG + 1, channel)


def is_ahead(rank: int, distance: int, extra: int) -> bool:
    """Whether a rank is one round ahead of its partner at `distance` in `recursive_doubling_allreduce`.

    Each holds the sum of `distance` ranks, and the first `extra` ranks had a vector to add. The rank is ahead if none
    of its ranks had one, but one of the partner's had.
    """
    first = rank & -distance  # of the ranks whose sum it holds
    return first ^ distance < extra <= first


def binomial_reduce(fabric: Fabric, vector: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
    """Sum into the root's tensor, the others' become scratch: log2(p) (alpha + n beta + n gamma) at the root."""
    p = fabric.size
    me = (fabric.rank - root) % p
    flat = vector.view(-1)
    buffer = empty_like(flat)
    distance = 1
    while distance < p:
        if me & distance:
            fabric.send(flat, (me - distance + root) % p, TAG + distance, channel)
            return
        if me + distance < p:
            fabric.recv(buffer, (me + distance + root) % p, TAG + distance, channel)
            with fabric.compute(reduce_cost(fabric, flat.numel(), NoCodec()), "host"):
                add_tensor(flat, buffer)
        distance *= 2


def binomial_broadcast(fabric: Fabric, vector: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
    """Copies the root's tensor to all ranks: ceil(log2 p) (alpha + n beta).

    A rank sends one message after the other: concurrent ones would share its NIC, and delay the farthest partner, whose
    subtree is the largest.
    """
    p = fabric.size
    me = (fabric.rank - root) % p
    flat = vector.view(-1)
    distance = 1
    while distance < p:
        distance *= 2
    while distance > 1:
        distance //= 2
        if me % (2 * distance) == 0 and me + distance < p:
            fabric.send(flat, (me + distance + root) % p, TAG + distance, channel)
        elif me % (2 * distance) == distance:
            fabric.recv(flat, (me - distance + root) % p, TAG + distance, channel)


def tree_allreduce(fabric: Fabric, vector: torch.Tensor, channel: int = MAIN) -> None:
    """Binomial reduce to rank 0, then binomial broadcast."""
    binomial_reduce(fabric, vector, 0, channel)
    binomial_broadcast(fabric, vector, 0, channel)


def server_allreduce(fabric: Fabric, vector: torch.Tensor, channel: int = MAIN) -> None:
    """The last rank, a server without a vector, sums its clients' vectors in rank order and returns the sum.

    For p clients the push takes alpha + p n beta (incast), and so does the pull.
    """
    server = fabric.size - 1
    if fabric.rank == server:
        serve_sum(fabric, vector, range(server), channel, TAG)
        for send in [fabric.isend(vector, client, TAG + 1, channel) for client in range(server)]:
            send.wait()
    else:
        fabric.send(vector, server, TAG, channel)
        fabric.recv(vector, server, TAG + 1, channel)


def serve_sum(fabric: Fabric, total: torch.Tensor, clients: range, channel: int = MAIN, tag: int = 0) -> None:
    """Receive the clients' vectors and store their sum, added in rank order, in `total`."""
    buffers = [total] + [empty_like(total) for _ in clients[1:]]
    receives = [fabric.irecv(buffer, client, tag, channel) for buffer, client in zip(buffers, clients)]
    for index, receive in enumerate(receives):
        receive.wait()
        if index:
            with fabric.compute(reduce_cost(fabric, total.numel(), NoCodec()), "host"):
                add_tensor(total, buffers[index])


def dissemination_barrier(fabric: Fabric, channel: int = MAIN) -> None:
    """ceil(log2 p) rounds of one byte."""
    p, me = fabric.size, fabric.rank
    token = torch.zeros(1, dtype=torch.uint8)
    distance = 1
    while distance < p:
        to, source = (me + distance) % p, (me - distance) % p
        receive, send = fabric.sendrecv(token, to, torch.empty_like(token), source, TAG + distance, channel)
        send.wait()
        receive.wait()
        distance *= 2


ALLREDUCE: dict[str, Callable[[Fabric, torch.Tensor, int], None]] = {
    "ring": ring_allreduce,
    "ring_half_duplex": partial(ring_allreduce, half_duplex=True),
    "ring_pipelined": ring_pipelined,
    "recursive_doubling": recursive_doubling_allreduce,
    "tree": tree_allreduce,
    "server": server_allreduce,
    "sharded_server": sharded_server_allreduce,
}


def allreduce_algorithm(name: str) -> Callable[[Fabric, torch.Tensor, int], None]:
    """The allreduce `name`; InputError listing the valid names for another."""
    if name not in ALLREDUCE:
        raise unknown_name("allreduce algorithm", name, [*ALLREDUCE, "native", "auto"])
    return ALLREDUCE[name]


__all__ = [
    "ALLREDUCE",
    "allreduce_algorithm",
    "chunk_bounds",
    "cut_vector",
    "piece_bounds",
    "ring_pipelined_encoded",
]
