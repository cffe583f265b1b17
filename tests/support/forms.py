"""Closed forms that only tests use, to check the virtual fabric and strategies.

Symbols: `repro.algorithms.timing`. `all_pull` and `one_pulls` are pulls from a sharded server whose nodes share hosts:
each of p nodes has a p-th of the vector, b = `largest_block(p, n)` bytes; rank r is on host r mod h; m nodes share a
host; `local_alpha` and `local_beta` apply within a host. Requests cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from repro.algorithms.timing.collective_forms import (
    FLOAT32,
    hop_work,
    largest_block,
    log2_rounds,
    pull_seconds,
    push_seconds,
    ring_seconds,
    server_seconds,
)
from repro.algorithms.timing.sparse_forms import ELEMENT
from repro.algorithms.timing.step_forms import pipe_limited, server_step
from repro.fabric.codecs import Codec
from repro.fabric.collectives import DEFAULT_PIECES
from repro.fabric.costs import Costs

MESSAGE_BYTES = 16  # of an activation


def ring_pipelined_even(p: int, alpha: float, wire: float, work: float, pieces: int) -> float:
    """The pipelined ring of equal pieces in closed form; seconds without S. m = `pieces`, a piece takes c = `wire` on
    the wire and r = `work` to reduce (`piece_stages`), p >= 2:

        max( 2(p-1) m c + alpha,
             2 (alpha + c) + r + (m-1) max(c, r) + (p-2) (max(m c, m r, alpha + c + r) + max(m c, alpha + c)) )

    Derivation. Number the pieces of all hops, q = 0 .. 2(p-1)m - 1; X(q) is when the network card starts to send piece
    q, R(q) when it is summed (in the second half: when it has arrived). Then

        X(q) = max(X(q-1) + c, R(q-m)),   R(q) = max(X(q) + alpha + c, R(q-1)) + r (no r in the second half)

    so the end is the heaviest path from X(0) to the last R, over three moves: to the next piece on the wire (c), to the
    next piece's sum (r), or from the wire through the sum to the next hop (alpha + c + r, alpha + c in the second
    half), m pieces further. First line: the card never rests. Second line: in each half (p-2) times m pieces by the
    slowest move, and one crossing. For pieces that differ by an element, with the largest's times, an upper bound.
    """
    if p == 1:
        return 0.0
    m, c, r = pieces, wire, work
    first, second = max(m * c, m * r, alpha + c + r), max(m * c, alpha + c)
    return max(2 * (p - 1) * m * c + alpha, 2 * (alpha + c) + r + (m - 1) * max(c, r) + (p - 2) * (first + second))


def piece_stages(
    p: int, n: int, beta: float, costs: Costs, codec: Codec, pieces: int = DEFAULT_PIECES
) -> tuple[float, float, int]:
    """(wire, work, pieces) for `ring_pipelined_even`: times of the largest piece, and the pieces of a block."""
    block = largest_block(p, n) // FLOAT32
    pieces = max(1, min(pieces, block))
    piece = -(-block // pieces)
    return codec.wire_bytes(piece) * beta, hop_work(piece * FLOAT32, costs, codec), pieces


def gtopk_rounds(p: int, k: int, alpha: float, beta: float, merge: float = 0.0, element: float = ELEMENT) -> float:
    """Equation (7) with ceil(log2 P) rounds: `gtopk_tree` for a power of two, an upper bound for other P."""
    return log2_rounds(p) * (2 * (alpha + k * element * beta) + 2 * k * element * merge)


def activation_s(p: int, alpha: float, beta: float) -> float:
    """Seconds until an activation has reached all ranks: ceil(log2 p) messages in a row (section 4.1.1)."""
    return math.ceil(math.log2(p)) * (alpha + MESSAGE_BYTES * beta)


def staleness_bound(delays: Sequence[Sequence[float]], compute_s: float, latency_s: float) -> int:
    """tau of Lemma 5.1 (4) for solo allreduce in rounds, derived from the injected delays (errata.md, EA-3).

    delays     [step][rank]: seconds that an injector adds to `compute_s` of every rank's step
    latency_s  longest time from a round's start to its end on any rank

    A rank that is not late is level with the first one. From there to step t it needs the sum of compute_s + d(s),
    while every round takes at least compute_s + min d. So it is behind by the excess of its delays over the least
    ones, summed over its worst window; plus one round for the latency and one for the round in progress.
    """
    least = compute_s + min(min(step) for step in delays)
    worst = 0.0
    for rank in range(len(delays[0])):
        excess = 0.0  # the largest sum over windows that end here
        for step in delays:
            excess = max(0.0, excess) + step[rank] - min(step)
            worst = max(worst, excess)
    return math.ceil((worst + latency_s) / least) + 1


def pipe_sequential(
    T: int, l_up: float, l_for: float, l_back: float, p: int, n: int, alpha: float, beta: float, gamma: float,
    sync: float,
) -> float:  # fmt: skip
    """Equation (5): equation (4) with one ring allreduce for the whole gradient."""
    return pipe_limited(T, l_up, l_for + l_back, ring_seconds(p, n, alpha, beta, gamma, sync))


def pipe_segmented_total(
    T: int, K: int, l_up: float, l_for: float, backward: Sequence[float], communication: Sequence[float],
    warmup: int = 0,
) -> float:  # fmt: skip
    """T iterations of Pipe-SGD in segments until the last gradient is applied, by recursion (docs/errata.md, PS-1).

    The steady state with the pipeline's fill and drain. The first `warmup` iterations have K = 1. An update starts when
    all segments of its iteration are summed.
    """
    main = thread = 0.0
    done: list[float] = []  # when the sum of each iteration is ready
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
    """T iterations of PS-Sync until the last worker has the weights: an incast (`push`), T-1 steady steps, a pull."""
    first = l_comp + push_seconds(p, n, alpha, beta, gamma) + l_up
    return first + (T - 1) * server_step(p, n, alpha, beta, gamma, l_up, l_comp) + pull_seconds(p, n, alpha, beta)


def server_step_incast(p: int, n: int, alpha: float, beta: float, gamma: float, l_up: float, l_comp: float) -> float:
    """The textbook's step of PS-Sync, where all workers start at once: (p-1) n beta above `server_step`."""
    return l_comp + server_seconds(p, n, alpha, beta, gamma) + l_up


def on_host(p: int, hosts: int | None, host: int = 0) -> int:
    """m, the number of nodes on a host; host 0 has the most. hosts None: every node is a host."""
    return 1 if hosts is None else len(range(host, p, hosts))


def all_pull(
    p: int, n: int, alpha: float, beta: float, hosts: int | None = None, local_alpha: float = 0.0,
    local_beta: float = 0.0,
) -> float:  # fmt: skip
    """All nodes pull the whole vector at once: max( alpha + m (p - m) b beta, local_alpha + m (m - 1) b local_beta ).

    Each of a host's m nodes receives p - m blocks through its NIC and m - 1 through its memory. Exact where h divides p
    or p <= h, because then no two hosts send to one at a time; else a lower bound, of the busiest host.
    """
    block, slowest = largest_block(p, n), 0.0
    for host in range(min(p, hosts or p)):
        m = on_host(p, hosts, host)
        remote = alpha + m * (p - m) * block * beta if p > m else 0.0
        local = local_alpha + m * (m - 1) * block * local_beta if m > 1 else 0.0
        slowest = max(slowest, remote, local)
    return slowest


def one_pulls(
    p: int, n: int, alpha: float, beta: float, hosts: int | None = None, local_alpha: float = 0.0,
    local_beta: float = 0.0,
) -> float:  # fmt: skip
    """One node of host 0 alone pulls the vector: max( alpha + (p-m) b beta, local_alpha + (m-1) b local_beta )."""
    block, m = largest_block(p, n), on_host(p, hosts)
    remote = alpha + (p - m) * block * beta if p > m else 0.0
    return max(remote, local_alpha + (m - 1) * block * local_beta if m > 1 else 0.0)
