"""Closed forms of what communication and training steps cost, each with its source; the virtual fabric must agree.

Symbols, everywhere in this file:

    p       ranks that hold a vector (for a server: its clients, the server not counted)
    n       bytes of the float32 vector on one rank
    alpha   seconds a message needs besides its bytes
    beta    seconds a byte on the wire
    gamma   seconds a byte of float32 data summed into another vector
    sync    S of Pipe-SGD equation (5), seconds an allreduce

All results are seconds, from the moment when all ranks call until the last rank is done, one collective alone on the
network. Where p does not divide n, blocks differ by one element (`collectives.bounds`) and the largest decides: it
travels the whole ring without a pause, and no hop takes longer than its.

Steps of training are in the second half: l_up, l_comp, l_comm are seconds of update, computation (forward and backward)
and communication of one iteration, T the number of iterations. Where a codec works on the computation thread
(`codec_device`), compression counts to l_comp and decompression to l_up.

[47] is Pipe-SGD's reference, Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repro.fabric.codecs import Codec
    from repro.timing.costs import Costs

FLOAT32 = 4


def largest_block(p: int, n: int) -> int:
    """Bytes of the largest of p consecutive blocks of whole float32 elements."""
    return -(-(n // FLOAT32) // p) * FLOAT32


def rounds(p: int) -> int:
    """ceil(log2 p)."""
    return (p - 1).bit_length()


# --- collectives


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
    work = costs.seconds("reduce", block)
    if not codec.lossless:
        work += 2 * costs.seconds(f"decode/{codec.name}", block) + costs.seconds(f"encode/{codec.name}", block)
    return costs.seconds("sync") + (p - 1) * (2 * hop + work)


def codec_device(n: int, costs: Costs, codec: Codec) -> tuple[float, float]:
    """(compress, decompress) of a whole gradient on the computation thread: Algorithm 1 lines 9 and 4 (ERRATA)."""
    return costs.seconds(f"encode/{codec.name}", n), costs.seconds(f"decode/{codec.name}", n)


def reduce_scatter(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """The first half of the ring [47]: (p-1) alpha + (p-1)/p n (beta + gamma)."""
    return (p - 1) * (alpha + largest_block(p, n) * (beta + gamma))


def allgather(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Ring allgather of n bytes from every rank [47]: (p-1)(alpha + n beta). Nothing is summed."""
    return (p - 1) * (alpha + n * beta)


def recursive_doubling(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Allreduce by recursive doubling [47]: log2 p (alpha + n beta + n gamma) for p a power of two.

    Else over the largest power of two below p, plus a round in (alpha + n beta + n gamma) and one out (alpha + n beta).
    That is the textbook's sum of rounds; on the virtual fabric the ranks that do not wait for the round in send early,
    which hides an alpha or makes the folded vector queue for n beta: the two differ by at most max(alpha, n beta).
    """
    exchange = alpha + n * (beta + gamma)
    core = p.bit_length() - 1
    extra = 0.0 if p == 1 << core else exchange + alpha + n * beta
    return core * exchange + extra


def reduce(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
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


def broadcast(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Binomial tree from one rank [47]: log2 p (alpha + n beta) for p a power of two.

    Exact for any p by recursion: a rank sends to its farthest partner first, and its NIC takes n beta a message. Never
    above ceil(log2 p) rounds.
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


def tree(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
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

    ERRATA: with p = 4 about 8 n beta where the ring has 1.5 n beta.
    """
    return push(p, n, alpha, beta, gamma) + pull(p, n, alpha, beta)


def collective(name: str, ranks: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """The form of a collective by the name that `repro bench collective` knows; `ranks` counts the server."""
    forms = {
        "ring": ring,
        "native": ring,  # what the virtual fabric does natively
        "recursive_doubling": recursive_doubling,
        "tree": tree,
        "allgather": allgather,
        "reduce_scatter": reduce_scatter,
        "broadcast": broadcast,
        "reduce": reduce,
    }
    if name == "server":
        return server(ranks - 1, n, alpha, beta, gamma)
    return forms[name](ranks, n, alpha, beta, gamma)


# --- steps of training: the paper's equations


def sync_total(T: int, l_up: float, l_comp: float, l_comm: float) -> float:
    """Synchronous SGD (D-Sync), Pipe-SGD equation (2): T (l_up + l_comp + l_comm). With T = 1, a step."""
    return T * (l_up + l_comp + l_comm)


def pipe_ideal(T: int, K: int, l_up: float, l_comp: float, l_comm: float) -> float:
    """Pipe-SGD with unlimited resources, equation (3): T/K (l_up + l_comp + l_comm)."""
    return T / K * (l_up + l_comp + l_comm)


def pipe_limited(T: int, l_up: float, l_comp: float, l_comm: float) -> float:
    """Pipe-SGD for any K >= 2 on limited resources, equation (4): T max(l_up + l_comp, l_comm).

    Steady state: neither the pipeline's fill nor its drain is in it (ERRATA); `pipe_total` has both.
    """
    return T * max(l_up + l_comp, l_comm)


def pipe_sequential(
    T: int,
    l_up: float,
    l_for: float,
    l_back: float,
    p: int,
    n: int,
    alpha: float,
    beta: float,
    gamma: float,
    sync: float,
) -> float:
    """Equation (5): equation (4) with one ring allreduce for the whole gradient."""
    return pipe_limited(T, l_up, l_for + l_back, ring(p, n, alpha, beta, gamma, sync))


def pipe_segmented(
    T: int,
    L: int,
    l_up: float,
    l_for: float,
    l_b: float,
    p: int,
    n: int,
    alpha: float,
    beta: float,
    gamma: float,
    sync: float,
) -> float:
    """Equation (6): the gradient is sent in L segments as the backward pass makes them; l_b is that of the first one.

    As printed, with n/p taken as it is:
    T max(l_up + l_for + l_b, 2(p-1) L alpha + 2 (p-1)/p n beta + (p-1)/p n gamma + L S).
    """
    share = (p - 1) / p * n
    return T * max(l_up + l_for + l_b, 2 * (p - 1) * L * alpha + share * (2 * beta + gamma) + L * sync)


def scaling_efficiency(l_up: float, l_comp: float, l_comm: float) -> float:
    """Equation (7), a fraction: (l_up + l_comp) / max(l_up + l_comp, l_comm)."""
    return (l_up + l_comp) / max(l_up + l_comp, l_comm)


# --- steps of training: derived here


def pipe_total(T: int, K: int, l_up: float, l_comp: float, l_comm: float, warmup: int = 0) -> float:
    """T iterations of Pipe-SGD from a standing start until the last gradient is applied (ERRATA on equation (4)).

    Algorithm 1 is three lines of work: C(t) ends computation t, M(t) communication t, U(t) the update with gradient t:

        C(t) = U(t-K) + l_comp, or C(t-1) + l_comp for t <= K     (updates up to 0 are left out)
        M(t) = max(C(t), M(t-1)) + l_comm
        U(t) = max(C(t+K-1), M(t), U(t-1)) + l_up                 (C(T) stands for what lies beyond T: the drain)

    The total is the heaviest path from C(1) to U(T). A detour over M(i) .. M(j) weighs linearly in i and j, so only its
    corners count: for T > K >= 2

        max( T (l_comp + l_up) + max(0, l_comm - (K-1) l_comp) + max(0, l_comm - (K-1) l_up),
             l_comp + T l_comm + l_up )

    The first is the compute-bound one: all work of the main line, the wait for the first gradient while the pipeline
    fills (K-1 computations cover some of it) and for the last one while it drains (K-1 updates cover some). The second
    is communication without a pause, always the larger where l_comm >= l_comp + l_up (for K > 2 also a little below:
    the communication that piled up during the fill takes some steps to work off). T <= K never leaves fill and drain.
    K = 1 is equation (2), and so are `warmup` iterations (of the T), after which the pipeline fills afresh.

    Holds where every iteration takes the same time on every rank and the pipeline runs through: each evaluation or
    checkpoint in between settles it, which empties the communication thread.
    """
    start = sync_total(min(warmup, T), l_up, l_comp, l_comm)
    T -= min(warmup, T)
    if T == 0 or K == 1:
        return start + sync_total(T, l_up, l_comp, l_comm)
    main_line = T * (l_comp + l_up)
    through = l_comp + T * l_comm + l_up
    if T > K:
        fill, drain = max(0.0, l_comm - (K - 1) * l_comp), max(0.0, l_comm - (K - 1) * l_up)
        return start + max(main_line + fill + drain, through)
    return start + max(main_line, l_comp + l_comm + T * l_up, T * l_comp + l_comm + l_up, through)


def server_step(p: int, n: int, alpha: float, beta: float, gamma: float, l_up: float, l_comp: float) -> float:
    """A steady-state step of PS-Sync with p workers and one server: from one update's end to the next.

    The server's NIC sends the weights to one worker after another, so worker i (1 .. p) starts i n beta + alpha after
    the update, and its gradient is in at (i+1) n beta + 2 alpha + l_comp: one behind the other, none has to queue. So
    only one vector's time is paid for the push: while summing keeps up,

        2 alpha + (p+1) n beta + l_comp + n gamma + l_up          (`server_step_incast` has 2 p n beta)

    Else the sums wait for each other, from the second vector on, or from when the last weights have left the server's
    NIC (it sends p vectors before it turns to the sums). l_up is the server's; workers update nothing. With one worker
    nothing is summed.
    """
    if p == 1:
        return 2 * (alpha + n * beta) + l_comp + l_up
    first = 2 * alpha + l_comp
    in_order = first + (p + 1) * n * beta + n * gamma
    sums_late = max(first + 3 * n * beta, p * n * beta) + (p - 1) * n * gamma
    return max(in_order, sums_late) + l_up


def server_total(T: int, p: int, n: int, alpha: float, beta: float, gamma: float, l_up: float, l_comp: float) -> float:
    """T iterations of PS-Sync until the last worker has the weights.

    In the first one all workers push at once (incast: `push`), T-1 steady steps follow, and the last weights go out.
    """
    first = l_comp + push(p, n, alpha, beta, gamma) + l_up
    return first + (T - 1) * server_step(p, n, alpha, beta, gamma, l_up, l_comp) + pull(p, n, alpha, beta)


def server_step_incast(p: int, n: int, alpha: float, beta: float, gamma: float, l_up: float, l_comp: float) -> float:
    """The textbook's step of PS-Sync, where workers start together: l_comp + push + l_up + pull, 2 p n beta.

    It is what fair sharing of the server's link gives: all pulls end at once, so all pushes collide. (p-1) n beta above
    `server_step`.
    """
    return l_comp + server(p, n, alpha, beta, gamma) + l_up
