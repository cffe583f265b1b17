"""Closed forms of training steps; symbols and conditions are those of `repro.algorithms.timing`."""

from __future__ import annotations

from collections.abc import Sequence

# --- the paper's equations


def sync_total(T: int, l_up: float, l_comp: float, l_comm: float) -> float:
    """Synchronous SGD (D-Sync), Pipe-SGD equation (2): T (l_up + l_comp + l_comm). With T = 1, a step."""
    return T * (l_up + l_comp + l_comm)


def pipe_limited(T: int, l_up: float, l_comp: float, l_comm: float) -> float:
    """Pipe-SGD for any K >= 2 on limited resources, equation (4): T max(l_up + l_comp, l_comm).

    Steady state: neither the pipeline's fill nor its drain is in it (docs/errata.md, PS-1); `pipe_total` has both.
    """
    return T * max(l_up + l_comp, l_comm)


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

    As printed, with n/p taken as it is (what limited resources allow is `pipe_segmented_limited`):
    T max(l_up + l_for + l_b, 2(p-1) L alpha + 2 (p-1)/p n beta + (p-1)/p n gamma + L S).
    """
    share = (p - 1) / p * n
    return T * max(l_up + l_for + l_b, 2 * (p - 1) * L * alpha + share * (2 * beta + gamma) + L * sync)


def scaling_efficiency(l_up: float, l_comp: float, l_comm: float) -> float:
    """Equation (7), a fraction: (l_up + l_comp) / max(l_up + l_comp, l_comm)."""
    return (l_up + l_comp) / max(l_up + l_comp, l_comm)


# --- derived here


def pipe_segmented_limited(
    T: int, K: int, l_up: float, l_for: float, backward: Sequence[float], communication: Sequence[float]
) -> float:
    """What limited resources allow when the gradient is sent in L segments: T steps in steady state, any K.

    backward[i]: seconds of the backward pass until segment i's gradient is there, after segment i-1's; segments in the
    order that the backward pass makes them, the last layers first. communication[i]: seconds of segment i's allreduce
    (`segment_allreduces`, or any other form). The allreduces of a rank take turns.

    K >= 2: T max(l_up + l_for + l_back, communication in all), l_back the whole backward pass.

    The paper contradicts itself here, and the report shows it: equation (6), as printed, has l_b, "the backward-pass
    time taken by the first segment", in the place of l_back. But the computation thread must finish the backward pass
    in every iteration, and what of it overlaps the communication of the same iteration does not shorten that thread's
    own work. So (6) claims less than its own premise of limited resources allows wherever computation decides, and with
    K >= 2 segments gain nothing over equation (5): they cost (L-1) (2(p-1) alpha + S) where communication decides.

    K = 1 (no pipelining of iterations) is where overlap within an iteration pays: segment i's allreduce starts when its
    gradient is there and the previous segment's is done,

        done(i) = max(backward(1) + .. + backward(i), done(i-1)) + communication(i)

    a step takes l_up + l_for + done(L) = l_up + l_for + max over i of (backward(1) + .. + backward(i) +
    communication(i) + .. + communication(L)). With i = 1 decisive that is l_up + l_for + l_b + communication: all three
    terms of (6), as a sum. With L = 1 it is equation (2).
    """
    if K > 1:
        return T * max(l_up + l_for + sum(backward), sum(communication))
    ready = done = 0.0
    for seconds, allreduce in zip(backward, communication, strict=True):
        ready += seconds
        done = max(ready, done) + allreduce
    return T * (l_up + l_for + done)


def pipe_total(T: int, K: int, l_up: float, l_comp: float, l_comm: float, warmup: int = 0) -> float:
    """T iterations of Pipe-SGD from a standing start until the last gradient is applied (docs/errata.md, PS-1).

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
