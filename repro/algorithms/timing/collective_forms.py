"""Closed forms of the collectives; `repro.algorithms.timing` defines symbols and conditions.

[47] is Pipe-SGD's reference, Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repro.fabric.collectives import DEFAULT_PIECES

if TYPE_CHECKING:
    from repro.fabric.codecs import Codec
    from repro.fabric.costs import Costs

FLOAT32 = 4


def largest_block(p: int, n: int) -> int:
    """Bytes of the largest of p consecutive blocks of whole float32 elements."""
    return -(-(n // FLOAT32) // p) * FLOAT32


def log2_rounds(p: int) -> int:
    """ceil(log2 p)."""
    return (p - 1).bit_length()


def ring_seconds(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0, sync: float = 0.0) -> float:
    """Ring allreduce, Pipe-SGD equation (5) after [47]: 2(p-1) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma + S."""
    block = largest_block(p, n)
    return sync + 2 * (p - 1) * (alpha + block * beta) + (p - 1) * block * gamma


def ring_half_duplex(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """`ring_seconds` whose ranks send and receive in turns: 4(p-1) alpha + 4 (p-1)/p n beta + (p-1)/p n gamma.

    Exact for an even p that divides the elements, else a bound from above.
    """
    return ring_seconds(p, n, 2 * alpha, 2 * beta, gamma)


def ring_encoded(p: int, n: int, alpha: float, beta: float, costs: Costs, codec: Codec) -> float:
    """Ring allreduce with a codec inside each hop (Pipe-SGD section 3.2), on blocks that are compressed already.

    A hop of the first half moves a block's wire bytes, then decompresses two blocks, sums them and compresses the sum
    on the communication thread (resource "host"). A hop of the second half forwards wire bytes unchanged. `costs`:
    "reduce", "encode/NAME", "decode/NAME" (seconds, by bytes of float32) and "sync". The first compression and the
    last decompression are `codec_device`.
    """
    block = largest_block(p, n)
    hop = alpha + codec.wire_bytes(block // FLOAT32) * beta
    return costs.modelled("sync") + (p - 1) * (2 * hop + hop_work(block, costs, codec))


def codec_device(n: int, costs: Costs, codec: Codec) -> tuple[float, float]:
    """(compress, decompress) of a whole gradient on the computation thread: Algorithm 1 lines 9 and 4."""
    return costs.modelled(f"encode/{codec.name}", n), costs.modelled(f"decode/{codec.name}", n)


def ring_pipelined(
    p: int, n: int, alpha: float, beta: float, gamma: float = 0.0, sync: float = 0.0, pieces: int = DEFAULT_PIECES
) -> float:
    """Pipelined ring allreduce (Pipe-SGD section 3.2, Figure 3 (a)): each block in `pieces`, exact by recursion."""
    return sync + _pipeline(p, n, alpha, lambda length: length * FLOAT32 * beta, lambda b: b * gamma, pieces, True)


def ring_pipelined_encoded(
    p: int, n: int, alpha: float, beta: float, costs: Costs, codec: Codec, pieces: int = DEFAULT_PIECES
) -> float:
    """`ring_pipelined` with a codec inside each hop, on each piece (Figure 3 (b)); costs as in `ring_encoded`."""
    wire, work = lambda length: codec.wire_bytes(length) * beta, lambda block: hop_work(block, costs, codec)
    return costs.modelled("sync") + _pipeline(p, n, alpha, wire, work, pieces, codec.lossless)


def hop_work(block: int, costs: Costs, codec: Codec) -> float:
    """Seconds to decompress two blocks (or pieces) of that many bytes of float32, sum them and compress the sum."""
    work = costs.modelled("reduce", block)
    if not codec.lossless:
        work += 2 * costs.modelled(f"decode/{codec.name}", block) + costs.modelled(f"encode/{codec.name}", block)
    return work


def _pipeline(
    p: int, n: int, alpha: float, wire: Callable[[int], float], work: Callable[[int], float], pieces: int,
    in_place: bool,
) -> float:  # fmt: skip
    """The recursion of the pipelined ring.

    wire      seconds of a piece on the wire, by its elements
    work      seconds to sum a piece, by its bytes
    in_place  a piece of the result may arrive only after the piece that it overwrites has left

    Step s of a rank is piece s mod m of hop s div m. The piece arrives alpha and its wire time after the left
    neighbour's network card started to send it. The rank sums it (in the first p-1 hops) after the piece before, and
    hands it to its own network card for step s + m.
    """
    if p == 1:
        return 0.0
    elements = n // FLOAT32
    blocks = [(i + 1) * elements // p - i * elements // p for i in range(p)]
    m = max(1, min(pieces, max(blocks)))
    lengths = [[(j + 1) * block // m - j * block // m for j in range(m)] for block in blocks]
    half, steps = (p - 1) * m, 2 * (p - 1) * m
    now, card = [0.0] * p, [0.0] * p  # for each rank: the time of its thread, and when its network card is free
    left = [[0.0] * steps for _ in range(p)]  # when the piece of a step has left the rank

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


def allgather_seconds(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Ring allgather of n bytes from every rank [47]: (p-1)(alpha + n beta)."""
    return (p - 1) * (alpha + n * beta)


def recursive_doubling(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Allreduce by recursive doubling [47]: log2 p (alpha + n beta + n gamma) for p a power of two.

    For other p: the same over the largest power of two below p, plus a first round (alpha + n beta + n gamma) and a
    last one (alpha + n beta). That sum is exact for gamma = 0 and an upper bound otherwise; the recursion is exact,
    because a rank a round ahead of its partner sends as soon as the partner's link is free, before the partner has
    summed. (With alpha = gamma = 0 messages arrive at the same moment, and a rank may wait n beta longer.)
    """
    core = 1 << (p.bit_length() - 1)
    folded = [rank < p - core for rank in range(core)]  # whether a rank's sum has a vector from outside the core
    wire, work = n * beta, n * gamma
    left = [wire * extra for extra in folded]  # when the last message to each rank left its sender,
    arrived = [(alpha + wire) * extra for extra in folded]  # when it arrived,
    ready = [(alpha + wire + work) * extra for extra in folded]  # and when it was summed
    distance = 1
    while distance < core:
        partner = [rank ^ distance for rank in range(core)]
        ahead = [folded[other] and not folded[rank] for rank, other in enumerate(partner)]
        sent = [max(ready[rank], ahead[rank] * (left[other] + alpha)) for rank, other in enumerate(partner)]
        left = [sent[other] + wire for other in partner]
        arrived = [max(sent[other] + alpha, arrived[rank]) + wire for rank, other in enumerate(partner)]
        ready = [max(arrived[rank], sent[rank] + wire) + work for rank in range(core)]
        folded = [folded[rank] or folded[other] for rank, other in enumerate(partner)]
        distance *= 2
    return max(at + (alpha + wire) * (rank < p - core) for rank, at in enumerate(ready))


def hierarchical_seconds(
    machines: int, gpus: int, n: int, link: tuple[float, float], local: tuple[float, float], gamma: float = 0.0
) -> float:
    """Allreduce of `gpus` ranks in each machine: reduce-scatter inside, a ring across machines for each of a machine's
    blocks, which share its network card, allgather inside. link, local: (alpha, beta) between machines, and inside.

    With m machines, g GPUs: 2(g-1) (alpha_l + n/g beta_l) + (g-1)/g n gamma + 2(m-1) alpha + 2 (m-1)/m n beta +
    (m-1)/m n/g gamma. So a machine's card carries 2 (m-1)/m n each way, where one ring of all ranks has 2 (p-1)/p n.
    """
    block = largest_block(gpus, n)
    inside = reduce_scatter(gpus, n, *local, gamma) + allgather_seconds(gpus, block, *local)
    return inside + ring_seconds(machines, block, link[0], gpus * link[1], gamma)


def reduce_seconds(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Binomial tree to one rank [47]: log2 p (alpha + n beta + n gamma) for p a power of two.

    Exact for any p with one receiving NIC a node, by the tree's recursion: children with smaller subtrees are ready
    early, their vectors queue at the parent in order of arrival, and the parent adds them in order of distance. Never
    above ceil(log2 p) rounds.
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


def broadcast_seconds(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Binomial tree from one rank [47]: log2 p (alpha + n beta) for p a power of two.

    Exact for any p by recursion: a rank sends to its farthest partner first, one message after the other, each n beta
    on its NIC; so also on links with fair sharing. Never above ceil(log2 p) rounds.
    """

    def last(ranks: int) -> float:
        latest, sent = 0.0, 0
        distance = 1 << log2_rounds(ranks)
        while distance > 1:
            distance //= 2
            if distance < ranks:
                latest = max(latest, sent * n * beta + alpha + n * beta + last(min(distance, ranks - distance)))
                sent += 1
        return latest

    return last(p)


def tree_seconds(p: int, n: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Binomial reduce, then broadcast: log2 p (2 alpha + 2 n beta + n gamma) for p a power of two."""
    return reduce_seconds(p, n, alpha, beta, gamma) + broadcast_seconds(p, n, alpha, beta)


def push_seconds(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """p clients send n bytes to a server at once (incast), which adds each vector while the next one arrives.

    alpha + p n beta + n gamma if summing is no slower than the network (gamma <= beta), else
    alpha + 2 n beta + (p-1) n gamma; the first vector is not summed.
    """
    if p == 0:
        return 0.0
    if p == 1:
        return alpha + n * beta
    return alpha + max(p * n * beta + n * gamma, 2 * n * beta + (p - 1) * n * gamma)


def pull_seconds(p: int, n: int, alpha: float, beta: float) -> float:
    """A server sends n bytes to each of p clients, one after the other: alpha + p n beta."""
    return alpha + p * n * beta if p else 0.0


def server_seconds(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Allreduce through a dedicated server, p clients: push, then pull; 2 (alpha + p n beta) + n gamma.

    docs/errata.md, PS-7: with p = 4 about 8 n beta where the ring has 1.5 n beta.
    """
    return push_seconds(p, n, alpha, beta, gamma) + pull_seconds(p, n, alpha, beta)


def sharded_server(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Allreduce through a server with a shard on every rank: 2 alpha + 2 (p-1)/p n beta + (p-1)/p n gamma.

    PipeDream section 3.2 counts its 4 (p-1)/p n bytes a rank, sent and received. Every rank starts with its neighbour,
    so no two ranks push to one shard at a time: p-1 parts arrive one after the other, with one alpha for all. The last
    rank's shard is the largest. It first adds rank 0's part, which arrives last, so its p-1 sums follow all arrivals,
    and its replies leave one after the other. With fewer elements than ranks this is an upper bound.
    """
    return 2 * alpha + (p - 1) * largest_block(p, n) * (2 * beta + gamma) if p > 1 else 0.0


def collective_seconds(name: str, ranks: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """The closed form of a collective of `repro bench collective`, by its name; `ranks` includes the server."""
    forms = {
        "ring": ring_seconds,
        "ring_half_duplex": ring_half_duplex,
        "ring_pipelined": ring_pipelined,
        "native": ring_seconds,  # the virtual fabric's own allreduce is a ring
        "auto": ring_seconds,  # and its automatic choice
        "recursive_doubling": recursive_doubling,
        "tree": tree_seconds,
        "sharded_server": sharded_server,
        "allgather": allgather_seconds,
        "reduce_scatter": reduce_scatter,
        "broadcast": broadcast_seconds,
        "reduce": reduce_seconds,
    }
    if name == "server":
        return server_seconds(ranks - 1, n, alpha, beta, gamma)
    return forms[name](ranks, n, alpha, beta, gamma)
