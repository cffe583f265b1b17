"""Closed forms that tests hold the virtual fabric and its strategies against, and that nothing else needs.

Symbols are those of `repro.algorithms.timing`. Pulls (`all_pull`, `one_pulls`) are from a sharded server whose nodes
share hosts: each of p nodes has a p-th of the vector, b = `largest_block(p, n)` bytes; rank r is on host r mod h; m
nodes share a host; `local_alpha` and `local_beta` are of messages within one. Pulls are asked for at no cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from repro.algorithms.timing.collective_forms import (
    FLOAT32,
    PIECES,
    hop_work,
    largest_block,
    pull,
    push,
    ring,
    rounds,
    server,
)
from repro.algorithms.timing.eager_forms import MESSAGE_BYTES
from repro.algorithms.timing.sparse_forms import ELEMENT
from repro.algorithms.timing.step_forms import pipe_limited, server_step
from repro.fabric.codecs import Codec
from repro.fabric.costs import Costs


def ring_pipelined_even(p: int, alpha: float, wire: float, work: float, pieces: int) -> float:
    """The pipelined ring of equal pieces in closed form; seconds without S. m = `pieces`, a piece takes c = `wire` on
    the wire and r = `work` to reduce (`piece_stages`), p >= 2:

        max( 2(p-1) m c + alpha,
             2 (alpha + c) + r + (m-1) max(c, r) + (p-2) (max(m c, m r, alpha + c + r) + max(m c, alpha + c)) )

    Derivation. Number the pieces of all hops through, q = 0 .. 2(p-1)m - 1; X(q) is when the network card takes piece q
    up, R(q) when it is summed (in the second half: when it is in). Then

        X(q) = max(X(q-1) + c, R(q-m)),   R(q) = max(X(q) + alpha + c, R(q-1)) + r (no r in the second half)

    so the end is the heaviest path from X(0) to the last R, over three moves: to the next piece on the wire (c), to the
    next piece's sum (r), or from the wire through the sum to the next hop (alpha + c + r, alpha + c in the second
    half), m pieces further. First line: always on the wire, the card never rests. Second line: in each half but for
    its one crossing (p-2) times m pieces, by the slowest of the moves. It is p = 2, m = 1: 2 (alpha + c) + r, the ring.

    Where one thing is the bottleneck throughout:

        network    r <= c and alpha + c + r <= m c:                    2 (p-1) m c + alpha
        reduction  r >= 2 c, alpha + c + r <= m r, alpha + c <= m c:   (p-1) m (c + r) + 2 alpha - (m-2) c
        latency    alpha + c >= m c, alpha + c + r >= m max(c, r):     2 (p-1) (alpha + c) + (p-1) r + (m-1) max(c, r)

    In the first, with m c = n beta / p, all reduction and all latency but one are hidden: 2 (p-1)/p n beta + alpha. In
    the second the reductions take turns without a pause: what section 3.2 says of complex compression. For pieces that
    differ by an element, with the largest's times, it is a bound from above.
    """
    if p == 1:
        return 0.0
    m, c, r = pieces, wire, work
    first, second = max(m * c, m * r, alpha + c + r), max(m * c, alpha + c)
    return max(2 * (p - 1) * m * c + alpha, 2 * (alpha + c) + r + (m - 1) * max(c, r) + (p - 2) * (first + second))


def piece_stages(
    p: int, n: int, beta: float, costs: Costs, codec: Codec, pieces: int = PIECES
) -> tuple[float, float, int]:
    """(wire, work, pieces) for `ring_pipelined_even`: of the largest piece, and how many pieces a block really has."""
    block = largest_block(p, n) // FLOAT32
    pieces = max(1, min(pieces, block))
    piece = -(-block // pieces)
    return codec.wire_bytes(piece) * beta, hop_work(piece * FLOAT32, costs, codec), pieces


def gtopk_rounds(p: int, k: int, alpha: float, beta: float, merge: float = 0.0, element: float = ELEMENT) -> float:
    """Equation (7) with ceil(log2 P) rounds: `gtopk_tree` of a power of two, a bound from above of any other P."""
    return rounds(p) * (2 * (alpha + k * element * beta) + 2 * k * element * merge)


def activation_s(p: int, alpha: float, beta: float) -> float:
    """From the initiator's call until the last rank knows: ceil(log2 p) messages in a row (section 4.1.1).

    For p not a power of two that is the most: some ranks are told in two ways.
    """
    return math.ceil(math.log2(p)) * (alpha + MESSAGE_BYTES * beta)


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


def segment_allreduces(
    segments: Sequence[int], p: int, alpha: float, beta: float, gamma: float, sync: float
) -> list[float]:
    """Seconds of a ring allreduce of each segment, given in bytes; their sum is equation (6)'s second term."""
    return [ring(p, n, alpha, beta, gamma, sync) for n in segments]


def pipe_segmented_total(
    T: int,
    K: int,
    l_up: float,
    l_for: float,
    backward: Sequence[float],
    communication: Sequence[float],
    warmup: int = 0,
) -> float:
    """T iterations of Pipe-SGD in segments from a standing start until the last gradient is applied, by recursion.

    As `pipe_total`, which it is for one segment: the first `warmup` iterations have K = 1, an update takes place once
    all segments of its iteration are there, fill and drain are in it.
    """
    main = thread = 0.0
    done: list[float] = []  # when the sum of each iteration is there
    updates = 0
    for t in range(1, T + 1):
        main += l_for
        for seconds, allreduce in zip(backward, communication, strict=True):
            main += seconds
            thread = max(main, thread) + allreduce
        done.append(thread)
        while len(done) - updates >= (1 if t <= warmup else K):
            main = max(main, done[updates]) + l_up
            updates += 1
    for late in done[updates:]:
        main = max(main, late) + l_up
    return main


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


def on_host(p: int, hosts: int | None, host: int = 0) -> int:
    """Nodes on a host, m: of host 0, which has the most, unless another is given. hosts None: every node is a host."""
    return 1 if hosts is None else len(range(host, p, hosts))


def all_pull(
    p: int,
    n: int,
    alpha: float,
    beta: float,
    hosts: int | None = None,
    local_alpha: float = 0.0,
    local_beta: float = 0.0,
) -> float:
    """All nodes pull the whole vector at once:

        max( alpha + m (p - m) b beta,  local_alpha + m (m - 1) b local_beta )

    Each of a host's m nodes gets p - m blocks through its NIC, and m - 1 through its memory, which is another way. With
    a node a host it is alpha + (p-1)/p n beta. Every node sends to its neighbour first and the next rank's then, so
    that at any moment no two hosts send to one. That holds where h divides p or p <= h; else it is a bound from below,
    of the busiest host.
    """
    block = largest_block(p, n)
    found = 0.0
    for host in range(min(p, hosts or p)):
        m = on_host(p, hosts, host)
        remote = alpha + m * (p - m) * block * beta if p > m else 0.0
        local = local_alpha + m * (m - 1) * block * local_beta if m > 1 else 0.0
        found = max(found, remote, local)
    return found


def one_pulls(
    p: int,
    n: int,
    alpha: float,
    beta: float,
    hosts: int | None = None,
    local_alpha: float = 0.0,
    local_beta: float = 0.0,
) -> float:
    """One node of host 0 pulls the whole vector while nobody else does: max( alpha + (p-m) b beta, local_alpha + (m-1)
    b local_beta ). Hosts share nothing then but its own NIC, which does not rest from the first block on."""
    block, m = largest_block(p, n), on_host(p, hosts)
    remote = alpha + (p - m) * block * beta if p > m else 0.0
    return max(remote, local_alpha + (m - 1) * block * local_beta if m > 1 else 0.0)
