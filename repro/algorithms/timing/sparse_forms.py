"""Closed forms of collectives of sparse gradients (gTop-k, Table I); further symbols as in `repro.algorithms.timing`.

k        number of elements that each rank sends
element  bytes of an element on the wire: a float32 value, unless a codec shortens it, and an int32 index
merge    seconds to merge two messages into one, a byte of both (Definition 1)

Table I does not name the units of k and m. With m and k = rho m in bytes and beta in seconds a byte (errata.md, GK-7)
its terms 2(P-1) k beta and 4 k log2(P) beta are those below for elements of 8 bytes.
"""

from __future__ import annotations

from typing import Literal, get_args

from repro.algorithms.timing.collective_forms import allgather_seconds, log2_rounds, ring_seconds, tree_seconds

ELEMENT = 8
Algorithm = Literal["dense", "topk", "topk_ring", "gtopk"]
NAMES = get_args(Algorithm)


def dense_seconds(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """DenseAllReduce, equation (5), a ring: 2(P-1) alpha + 2 (P-1)/P m beta (+ (P-1)/P m gamma)."""
    return ring_seconds(p, n, alpha, beta, gamma)


def topk_doubling(p: int, k: int, alpha: float, beta: float, element: float = ELEMENT) -> float:
    """TopKAllReduce, equation (6): an allgather by doubling, log2 P alpha + 8 (P-1) k beta.

    Exact for any P with ceil(log2 P) for log2 P: each rank receives P-1 messages of k elements in all.
    """
    return log2_rounds(p) * alpha + (p - 1) * k * element * beta


def topk_ring(p: int, k: int, alpha: float, beta: float, element: float = ELEMENT) -> float:
    """TopKAllReduce round a ring: (P-1) (alpha + 8 k beta); the same bytes, P-1 messages one after the other."""
    return allgather_seconds(p, k * element, alpha, beta)


def gtopk_tree(p: int, k: int, alpha: float, beta: float, merge: float = 0.0, element: float = ELEMENT) -> float:
    """gTopKAllReduce, equation (7), for P a power of two: 2 log2 P (alpha + 8 k beta), and log2 P merges of 16 k bytes.

    Exact for any P by recursion, as `collective_forms.tree_seconds`. If P is not a power of two it is below the
    equation with ceil(log2 P): a rank without a partner in a round sends at once.
    """
    return tree_seconds(p, k * element, alpha, beta, 2 * merge)


def sparse_collective(
    name: str,
    p: int,
    n: int,
    k: int,
    alpha: float,
    beta: float,
    gamma: float = 0.0,
    merge: float = 0.0,
    element: float = ELEMENT,
) -> float:
    """The closed form of one of NAMES: each rank sends k elements of its gradient of n bytes (dense: the gradient)."""
    if name == "dense":
        return dense_seconds(p, n, alpha, beta, gamma)
    if name == "gtopk":
        return gtopk_tree(p, k, alpha, beta, merge, element)
    return {"topk": topk_doubling, "topk_ring": topk_ring}[name](p, k, alpha, beta, element)
