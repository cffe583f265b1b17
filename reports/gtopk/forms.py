"""Table I of gTop-k in seconds, as the page compares with it; apart from the harness's own closed forms.

P workers, alpha seconds a message, beta seconds a byte. The gradient has m bytes of float32, k gradients of it are
sent, each with its index: 8 bytes. (The paper's k is in bytes too, k = rho m, so its 2k is 8 bytes an element.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

ELEMENT = 8  # bytes: a float32 value and an int32 index
NAMES = {"dense": "Dense", "topk": "Top-k", "topk_ring": "Top-k, ring", "gtopk": "gTop-k"}


def dense(P: int, m: float, k: int, alpha: float, beta: float) -> float:
    """Ring allreduce of m bytes, equation (5)."""
    return 2 * (P - 1) * alpha + 2 * (P - 1) / P * m * beta


def topk(P: int, m: float, k: int, alpha: float, beta: float) -> float:
    """Allgather by recursive doubling, equation (6)."""
    return math.log2(P) * alpha + ELEMENT * (P - 1) * k * beta


def topk_ring(P: int, m: float, k: int, alpha: float, beta: float) -> float:
    """Allgather round a ring: the same bytes, P - 1 messages after one another."""
    return (P - 1) * (alpha + ELEMENT * k * beta)


def gtopk(P: int, m: float, k: int, alpha: float, beta: float) -> float:
    """Tree and broadcast, equation (7)."""
    return 2 * math.log2(P) * (alpha + ELEMENT * k * beta)


FORMS: dict[str, Callable[[int, float, int, float, float], float]] = {
    "Dense": dense, "Top-k": topk, "Top-k, ring": topk_ring, "gTop-k": gtopk,
}  # fmt: skip


def selected(elements: int, density: float) -> int:
    """k of a gradient."""
    return max(1, round(density * elements))
