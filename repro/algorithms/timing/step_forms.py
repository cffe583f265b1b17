"""Closed forms of training steps; `repro.algorithms.timing` defines symbols and conditions."""

from __future__ import annotations

from collections.abc import Sequence

# --- the paper's equations


def sync_total(T: int, l_up: float, l_comp: float, l_comm: float) -> float:
    """Synchronous SGD (D-Sync), Pipe-SGD equation (2): T (l_up + l_comp + l_comm). With T = 1, a step."""
    return T * (l_up + l_comp + l_comm)


def pipe_limited(T: int, l_up: float, l_comp: float, l_comm: float) -> float:
    """Pipe-SGD for any K >= 2 on limited resources, equation (4): T max(l_up + l_comp, l_comm).

    The steady state, without the pipeline's fill and drain (docs/errata.md, PS-1).
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
    """Equation (6) as printed: the gradient is sent in L segments during the backward pass.

    l_b: seconds of the backward pass until the first segment is ready. On limited resources use
    `pipe_segmented_limited`.
    T max(l_up + l_for + l_b, 2(p-1) L alpha + 2 (p-1)/p n beta + (p-1)/p n gamma + L S).
    """
    share = (p - 1) / p * n
    return T * max(l_up + l_for + l_b, 2 * (p - 1) * L * alpha + share * (2 * beta + gamma) + L * sync)


# --- derived here


def pipe_segmented_limited(
    T: int, K: int, l_up: float, l_for: float, backward: Sequence[float], communication: Sequence[float]
) -> float:
    """T steady-state steps on limited resources with the gradient in L segments, for any K.

    backward[i]       seconds of the backward pass from segment i-1's gradient to segment i's, the last layers first
    communication[i]  seconds of segment i's allreduce; the allreduces of a rank follow each other

    K >= 2: T max(l_up + l_for + l_back, sum of communication), where l_back is the whole backward pass. Equation (6)
    prints l_b, "the backward-pass time taken by the first segment", in its place. This contradicts its premise of
    limited resources: the computation thread must finish the backward pass in every iteration. So with K >= 2 segments
    gain nothing over equation (5), and cost (L-1) (2(p-1) alpha + S) where communication decides.

    K = 1: segment i's allreduce starts when its gradient is ready and the previous allreduce is done,

        done(i) = max(backward(1) + .. + backward(i), done(i-1)) + communication(i)

    and a step takes l_up + l_for + done(L). If the first segment decides, that is l_up + l_for + l_b + communication,
    the terms of (6) as a sum. With L = 1 it is equation (2).
    """
    if K > 1:
        return T * max(l_up + l_for + sum(backward), sum(communication))
    ready = done = 0.0
    for seconds, allreduce in zip(backward, communication, strict=True):
        ready += seconds
        done = max(ready, done) + allreduce
    return T * (l_up + l_for + done)


def server_step(p: int, n: int, alpha: float, beta: float, gamma: float, l_up: float, l_comp: float) -> float:
    """A steady-state step of PS-Sync with p workers and one server: from one update's end to the next.

    The server sends the weights to one worker after another: worker i (1 .. p) starts i n beta + alpha after the
    update, and its gradient arrives at (i+1) n beta + 2 alpha + l_comp, without queueing. If summing is fast enough,

        2 alpha + (p+1) n beta + l_comp + n gamma + l_up

    Otherwise each sum waits for the one before, from the second vector on, or from when the last weights have left the
    server's NIC. l_up is the server's update. With one worker nothing is summed.
    """
    if p == 1:
        return 2 * (alpha + n * beta) + l_comp + l_up
    first = 2 * alpha + l_comp
    in_order = first + (p + 1) * n * beta + n * gamma
    sums_late = max(first + 3 * n * beta, p * n * beta) + (p - 1) * n * gamma
    return max(in_order, sums_late) + l_up


def server_step_shared(p: int, n: int, alpha: float, beta: float, gamma: float, l_up: float, l_comp: float) -> float:
    """`server_step` where messages share the server's NIC, as TCP's connections do: p pulls end together, so all
    workers compute and push at once, and the server sums when all vectors have arrived.

        2 (alpha + p n beta) + l_comp + (p-1) n gamma + l_up
    """
    return 2 * (alpha + p * n * beta) + l_comp + (p - 1) * n * gamma + l_up
