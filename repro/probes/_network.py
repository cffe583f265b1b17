"""The network model of a fabric in use, fitted to messages between neighbours: what its virtual twin runs on.

Every rank sends to its right and receives from its left at once, so that all links carry as much as in a ring's hop.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro.fabric.base import Fabric
from repro.probes._common import slowest
from repro.timing.closed_forms import FLOAT32, largest_block
from repro.timing.fit import fit_alpha_beta, fit_form

LEAST_S, MOST_REPEATS = 0.02, 50  # short work is repeated within one measurement until it takes that long
WIRE_TAG = 7


@dataclass(frozen=True)
class Fitted:
    """alpha, seconds a message; beta, seconds a byte; points: {bytes, seconds, min, max, fitted_s}."""

    alpha: float
    beta: float
    points: list[dict[str, float]]

    def as_result(self) -> dict[str, Any]:
        return {"alpha_s": self.alpha, "beta_s_per_byte": self.beta, "points": self.points}


def measure(fabric: Fabric, work: Callable[[int], Any], sizes: Sequence[int], rounds: int) -> dict[int, list[float]]:
    """Seconds of `work(bytes)` on the slowest rank, `rounds` of each size in turns; every rank gets the same."""
    repeats = {}
    for n in sizes:
        work(n)  # fresh pages, connections
        once = slowest(fabric, lambda n=n: work(n))
        repeats[n] = max(1, min(MOST_REPEATS, math.ceil(LEAST_S / max(once, 1e-9))))
    taken: dict[int, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for n in sizes:
            times = repeats[n]
            taken[n].append(slowest(fabric, lambda n=n, times=times: [work(n) for _ in range(times)]) / times)
    return taken


def neighbours(fabric: Fabric, sizes: Sequence[int], rounds: int) -> Fitted:
    """seconds = alpha + n beta of one message to the right, while one comes from the left."""
    p, me = fabric.size, fabric.rank
    buffers = {n: (torch.zeros(n // FLOAT32), torch.zeros(n // FLOAT32)) for n in sizes}

    def exchange(n: int) -> None:
        mine, incoming = buffers[n]
        receive = fabric.irecv(incoming, (me - 1) % p, WIRE_TAG)
        send = fabric.isend(mine, (me + 1) % p, WIRE_TAG)
        receive.wait()
        send.wait()

    taken = measure(fabric, exchange, sizes, rounds)
    points = [(n, statistics.median(seconds)) for n, seconds in taken.items()]
    fit = fit_alpha_beta(points)
    return Fitted(fit.alpha, fit.beta, _points(points, taken, fit.residuals))


def native(fabric: Fabric, sizes: Sequence[int], rounds: int) -> Fitted:
    """alpha and beta with which a ring would take as long as the library's own allreduce of so many bytes.

    Whatever algorithm the library chooses, its virtual twin is a ring; its summation is in beta.
    """
    p = fabric.size
    vectors = {n: torch.zeros(n // FLOAT32) for n in sizes}
    taken = measure(fabric, lambda n: fabric.native_allreduce(vectors[n]).wait(), sizes, rounds)
    points = [(n, statistics.median(seconds)) for n, seconds in taken.items()]
    messages = 2 * (p - 1)
    fit = fit_form(lambda n, a, b, g: messages * (a + largest_block(p, n) * b), points)
    return Fitted(fit.alpha, fit.beta, _points(points, taken, fit.residuals))


def _points(
    points: Sequence[tuple[int, float]], taken: dict[int, list[float]], residuals: Sequence[float]
) -> list[dict[str, float]]:
    return [
        {"bytes": n, "seconds": s, "min": min(taken[n]), "max": max(taken[n]), "fitted_s": s - rest}
        for (n, s), rest in zip(points, residuals)
    ]
