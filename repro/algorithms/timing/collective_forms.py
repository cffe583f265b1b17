"""Closed forms of the collectives; symbols and conditions are those of `repro.algorithms.timing`.

[47] is Pipe-SGD's reference, Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repro.fabric.codecs import Codec
    from repro.fabric.costs import Costs

FLOAT32 = 4
PIECES = 4  # of a block in the pipelined ring, where no number is given (`repro.fabric.collectives.pipelined`)


def largest_block(p: int, n: int) -> int:
    """Bytes of the largest of p consecutive blocks of whole float32 elements."""
    return -(-(n // FLOAT32) // p) * FLOAT32


def rounds(p: int) -> int:
    """ceil(log2 p)."""
    return (p - 1).bit_length()


def ring(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0, sync: float = 0.0) -> float:
    """Ring allreduce, Pipe-SGD equation (5) after [47]: 2(p-1) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma + S."""
    block = largest_block(p, n)
    return sync + 2 * (p - 1) * (alpha + block * beta) + (p - 1) * block * gamma


def ring_encoded(p: int, n: int, alpha: float, beta: float, costs: Costs, codec: Codec) -> float:
    """Ring allreduce with a codec inside each hop (Pipe-SGD section 3.2), on blocks that are compressed already.

    A hop of the first half moves a block's wire bytes, then decompresses two blocks, sums them and compresses the sum,
    on the thread that communicates (resource "host"); a hop of the second half passes wire bytes on unopened. `costs`
    has "reduce", "encode/NAME", "decode/NAME" (seconds, by bytes of float32) and "sync". The first compression and the
    last decompression lie outside, on the computation thread: `codec_device`.
    """
    block = largest_block(p, n)
    hop = alpha + codec.wire_bytes(block // FLOAT32) * beta
    return costs.modelled("sync") + (p - 1) * (2 * hop + hop_work(block, costs, codec))


def codec_device(n: int, costs: Costs, codec: Codec) -> tuple[float, float]:
    """(compress, decompress) of a whole gradient on the computation thread: Algorithm 1 lines 9 and 4."""
    return costs.modelled(f"encode/{codec.name}", n), costs.modelled(f"decode/{codec.name}", n)


def ring_pipelined(
    p: int,
    n: int,
    alpha: float,
    beta: float,
    gamma: float = 0.0,
    sync: float = 0.0,
    pieces: int = PIECES,
) -> float:
    """Pipelined ring allreduce (Pipe-SGD section 3.2, Figure 3 (a)): each block in `pieces`, exact by recursion.

    What a rank does with one piece after another, its network card, and its left neighbour's; `ring_pipelined_even` is
    what comes out where p x pieces divides the vector, in closed form.
    """
    return sync + _pipeline(p, n, alpha, lambda length: length * FLOAT32 * beta, lambda b: b * gamma, pieces, True)


def ring_pipelined_encoded(
    p: int, n: int, alpha: float, beta: float, costs: Costs, codec: Codec, pieces: int = PIECES
) -> float:
    """Pipelined ring allreduce with a codec inside each hop (Figure 3 (b)): exact by recursion, as `ring_pipelined`.

    The stages are (decompress, sum, compress) and (compressed communication), a piece being the unit of the codec;
    `costs` as for `ring_encoded`.
    """

    def wire(length: int) -> float:
        return codec.wire_bytes(length) * beta

    return costs.modelled("sync") + _pipeline(
        p, n, alpha, wire, lambda block: hop_work(block, costs, codec), pieces, codec.lossless
    )


def hop_work(block: int, costs: Costs, codec: Codec) -> float:
    """Seconds to decompress two blocks (or pieces) of that many bytes of float32, sum them and compress the sum."""
    work = costs.modelled("reduce", block)
    if not codec.lossless:
        work += 2 * costs.modelled(f"decode/{codec.name}", block) + costs.modelled(f"encode/{codec.name}", block)
    return work


def _pipeline(
    p: int,
    n: int,
    alpha: float,
    wire: Callable[[int], float],
    work: Callable[[int], float],
    pieces: int,
    in_place: bool,
) -> float:
    """The recursion: `wire` seconds of a piece's elements on the wire, `work` seconds to sum a piece of so many bytes.

    Step s of a rank is piece s mod m of hop s div m. It is there alpha and its time on the wire after the left
    neighbour's network card took it up; then it is summed (in the first p-1 hops), one piece after the other, and goes
    to the network card for step s + m. `in_place`: a piece of the result may come in only when the piece that lay there
    in the first half has left.
    """
    if p == 1:
        return 0.0
    elements = n // FLOAT32
    blocks = [(i + 1) * elements // p - i * elements // p for i in range(p)]
    m = max(1, min(pieces, max(blocks)))
    lengths = [[(j + 1) * block // m - j * block // m for j in range(m)] for block in blocks]
    half, steps = (p - 1) * m, 2 * (p - 1) * m
    now, card = [0.0] * p, [0.0] * p  # of each rank: its thread, and when its network card is free
    left = [[0.0] * steps for _ in range(p)]  # when the piece of a step has left its rank

    def send(rank: int, step: int, length: int) -> None:
        if length:
            card[rank] = left[rank][step] = max(card[rank], now[rank]) + wire(length)

    for rank in range(p):
        for step in range(m):
            send(rank, step, lengths[rank][step])
    for step in range(steps):
        hop, j = divmod(step, m)
        for rank in range(p):
            length = lengths[(rank - hop - 1) % p][j]
            if length:  # an empty piece is no message
                now[rank] = max(now[rank], left[(rank - 1) % p][step] + alpha)
                now[rank] += work(length * FLOAT32) if step < half else 0.0
            if step + m < steps:
                send(rank, step + m, length)
                if in_place and step + m >= half and lengths[(rank - hop - 2) % p][j]:
                    now[rank] = max(now[rank], left[rank][step + m - half])
    return max(*now, *card)


def reduce_scatter(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """The first half of the ring [47]: (p-1) alpha + (p-1)/p n (beta + gamma)."""
    return (p - 1) * (alpha + largest_block(p, n) * (beta + gamma))


def allgather(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Ring allgather of n bytes from every rank [47]: (p-1)(alpha + n beta). Nothing is summed."""
    return (p - 1) * (alpha + n * beta)


def recursive_doubling(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Allreduce by recursive doubling [47]: log2 p (alpha + n beta + n gamma) for p a power of two.

    Else over the largest power of two below p, plus a round in (alpha + n beta + n gamma) and one out (alpha + n beta):
    exactly that for gamma = 0. Else never more, and exact by recursion: a rank that is a round ahead of its partner
    sends when the partner's link is free, and so n gamma before the partner has summed. (With neither alpha nor gamma
    messages come in at the same moment, and the one that lets a rank go on may be behind another's n beta.)
    """
    core = 1 << (p.bit_length() - 1)
    folded = [rank < p - core for rank in range(core)]  # whether a vector from outside is in a rank's sum
    wire, work = n * beta, n * gamma
    left = [wire * one for one in folded]  # when the last message to each rank left its sender,
    came = [(alpha + wire) * one for one in folded]  # when it was in,
    ready = [(alpha + wire + work) * one for one in folded]  # and when it was summed
    distance = 1
    while distance < core:
        partner = [rank ^ distance for rank in range(core)]
        ahead = [folded[other] and not folded[rank] for rank, other in enumerate(partner)]
        sent = [max(ready[rank], ahead[rank] * (left[other] + alpha)) for rank, other in enumerate(partner)]
        left = [sent[other] + wire for other in partner]
        came = [max(sent[other] + alpha, came[rank]) + wire for rank, other in enumerate(partner)]
        ready = [max(came[rank], sent[rank] + wire) + work for rank in range(core)]
        folded = [folded[rank] or folded[other] for rank, other in enumerate(partner)]
        distance *= 2
    return max(at + (alpha + wire) * (rank < p - core) for rank, at in enumerate(ready))


def reduce(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Binomial tree to one rank [47]: log2 p (alpha + n beta + n gamma) for p a power of two.

    Exact for any p on one receiving NIC a node, by the tree's own recursion: children of smaller subtrees than a power
    of two are ready early, and their vectors queue at the parent in order of arrival; it adds them in order of
    distance. Never above ceil(log2 p) rounds.
    """

    def ready(ranks: int) -> float:
        children = []  # (when its sum is ready, distance)
        distance = 1
        while distance < ranks:
            children.append((ready(min(distance, ranks - distance)), distance))
            distance *= 2
        arrived, free = {}, 0.0
        for sent, distance in sorted(children):
            free = arrived[distance] = max(sent + alpha, free) + n * beta
        now = 0.0
        for distance in sorted(arrived):
            now = max(now, arrived[distance]) + n * gamma
        return now

    return ready(p)


def broadcast(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Binomial tree from one rank [47]: log2 p (alpha + n beta) for p a power of two.

    Exact for any p by recursion: a rank sends to its farthest partner first, and its NIC takes n beta a message, one
    after the other, so on links that share too. Never above ceil(log2 p) rounds.
    """

    def last(ranks: int) -> float:
        latest, sent = 0.0, 0
        distance = 1 << rounds(ranks)
        while distance > 1:
            distance //= 2
            if distance < ranks:
                there = min(distance, ranks - distance)
                latest = max(latest, sent * n * beta + alpha + n * beta + last(there))
                sent += 1
        return latest

    return last(p)


def tree(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Binomial reduce, then broadcast: log2 p (2 alpha + 2 n beta + n gamma) for p a power of two."""
    return reduce(p, n, alpha, beta, gamma) + broadcast(p, n, alpha, beta)


def push(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """p clients send n bytes to a server at once (incast), which adds them in rank order while the next comes in.

    alpha + p n beta + n gamma while summing keeps up (gamma <= beta), else alpha + 2 n beta + (p-1) n gamma: the first
    vector is taken as it is, and the sums wait for each other instead of for the network.
    """
    if p == 0:
        return 0.0
    if p == 1:
        return alpha + n * beta
    return alpha + max(p * n * beta + n * gamma, 2 * n * beta + (p - 1) * n * gamma)


def pull(p: int, n: int, alpha: float, beta: float) -> float:
    """A server sends n bytes to each of p clients, one after another through its NIC: alpha + p n beta."""
    return alpha + p * n * beta if p else 0.0


def server(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Allreduce through a dedicated server, p clients: push, then pull; 2 (alpha + p n beta) + n gamma.

    docs/errata.md, PS-7: with p = 4 about 8 n beta where the ring has 1.5 n beta.
    """
    return push(p, n, alpha, beta, gamma) + pull(p, n, alpha, beta)


def sharded_server(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Allreduce through a server with a shard on every rank: 2 alpha + 2 (p-1)/p n beta + (p-1)/p n gamma.

    PipeDream section 3.2 counts its 4 (p-1)/p n bytes a rank, sent and received. Every rank begins with its neighbour,
    so that no two push to one shard at a time: p-1 parts come in one after the other, alpha for all of them. The last
    rank's shard is the largest; what it adds first, rank 0's part, comes in last, so that it adds all p-1 parts after.
    It is the last to reply, and its replies leave one after the other. With fewer elements than ranks a bound from
    above: parts of no length do not keep others off a network card.
    """
    return 2 * alpha + (p - 1) * largest_block(p, n) * (2 * beta + gamma) if p > 1 else 0.0


def collective(name: str, ranks: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """The form of a collective by the name that `repro bench collective` knows; `ranks` counts the server."""
    forms = {
        "ring": ring,
        "ring_pipelined": ring_pipelined,
        "native": ring,  # what the virtual fabric does natively
        "auto": ring,  # which is what it takes there
        "recursive_doubling": recursive_doubling,
        "tree": tree,
        "sharded_server": sharded_server,
        "allgather": allgather,
        "reduce_scatter": reduce_scatter,
        "broadcast": broadcast,
        "reduce": reduce,
    }
    if name == "server":
        return server(ranks - 1, n, alpha, beta, gamma)
    return forms[name](ranks, n, alpha, beta, gamma)
