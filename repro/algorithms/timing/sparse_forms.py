"""Closed forms of sparse gradients' collectives (gTop-k, Table I); symbols are those of
`repro.algorithms.timing`.

k       elements that each rank sends
element bytes of one on the wire: a float32 value and an int32 index where no codec shortens the value
merge   seconds a byte of both messages that a rank makes one of (Definition 1)

Table I counts k and m in units that it does not name. With m bytes of the gradient, k = rho m bytes of selected values,
and beta seconds a byte (errata.md, GK-7) its terms 2(P-1) k beta and 4 k log2(P) beta are those here, in elements of 8
bytes.
"""

from __future__ import annotations

from repro.algorithms.timing.collective_forms import allgather, ring, rounds, tree

ELEMENT = 8
NAMES = ("dense", "topk", "topk_ring", "gtopk")


def dense(p: int, n: int, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """DenseAllReduce, equation (5), a ring: 2(P-1) alpha + 2 (P-1)/P m beta (+ (P-1)/P m gamma)."""
    return ring(p, n, alpha, beta, gamma)


def topk_doubling(p: int, k: int, alpha: float, beta: float, element: float = ELEMENT) -> float:
    """TopKAllReduce, equation (6): an allgather by doubling, log2 P alpha + 8 (P-1) k beta.

    Exact for any P with ceil(log2 P) for log2 P: a round carries what a rank has, or what is missing, P-1 messages of k
    elements in all.
    """
    return rounds(p) * alpha + (p - 1) * k * element * beta


def topk_ring(p: int, k: int, alpha: float, beta: float, element: float = ELEMENT) -> float:
    """TopKAllReduce round a ring: (P-1) (alpha + 8 k beta); the same bytes, P-1 messages one after the other."""
    return allgather(p, k * element, alpha, beta)


def gtopk_tree(p: int, k: int, alpha: float, beta: float, merge: float = 0.0, element: float = ELEMENT) -> float:
    """gTopKAllReduce, equation (7), for P a power of two: 2 log2 P (alpha + 8 k beta), and log2 P merges of 16 k bytes.

    Exact for any P by recursion, as the tree of dense vectors is (`collective_forms.reduce` and `broadcast`); never
    above the same with ceil(log2 P). Below it where P is no power of two: a rank that has no partner in a round sends
    at once, and its message waits for the receiver's network card alone.
    """
    return tree(p, k * element, alpha, beta, 2 * merge)


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
    """The form of one of NAMES, for a gradient of n bytes of which each rank sends k elements (dense: all of it)."""
    if name == "dense":
        return dense(p, n, alpha, beta, gamma)
    if name == "gtopk":
        return gtopk_tree(p, k, alpha, beta, merge, element)
    return {"topk": topk_doubling, "topk_ring": topk_ring}[name](p, k, alpha, beta, element)
