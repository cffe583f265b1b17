"""The network model of a fabric in use, fitted to messages between neighbours: what its virtual twin runs on.

Every rank sends to its right and receives from its left at once, so that all links carry as much as in a ring's hop.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.fit import Fit, fit_alpha_beta
from repro.fabric.base import Fabric
from repro.fabric.virtual.network import Network
from repro.probes.shared.stopwatch import repeats, slowest

LEAST_S, MOST_REPEATS = 0.02, 50  # short work is repeated within one measurement until it takes that long
WIRE_TAG = 7


LONG = 1 << 20  # bytes: messages whose slope is the link's


@dataclass(frozen=True)
class Fitted:
    """network: beta, seconds a byte, is the slope of long messages, alpha what each size measured takes besides.

    alpha of the network is that of the shortest. points: {bytes, seconds, min, max, fitted_s}, the last of one alpha
    and one beta fitted to all sizes, which is what the closed forms would have to do with.
    """

    network: Network
    points: list[dict[str, float]]

    def as_result(self) -> dict[str, Any]:
        network = self.network
        by_size = [{"bytes": n, "alpha_s": alpha} for n, alpha in network.by_size]
        return {
            "alpha_s": network.alpha,
            "beta_s_per_byte": network.beta,
            "alpha_by_size": by_size,
            "points": self.points,
        }


def fit(points: Sequence[tuple[int, float]], messages: int = 1) -> Network:
    """The network on which `messages` messages of n bytes, one after the other, take the measured (n, seconds).

    What is under way at once shares its links: so do TCP's connections.
    """
    each = sorted((n, seconds / messages) for n, seconds in points)
    long = [point for point in each if point[0] >= LONG]
    beta = fit_alpha_beta(long if len(long) > 1 else each[-2:]).beta
    by_size = tuple((n, max(0.0, seconds - n * beta)) for n, seconds in each)
    return Network(by_size[0][1], beta, by_size, fair=True)


def measure(fabric: Fabric, work: Callable[[int], Any], sizes: Sequence[int], rounds: int) -> dict[int, list[float]]:
    """Seconds of `work(bytes)` on the slowest rank, `rounds` of each size in turns; every rank gets the same."""
    times = {n: repeats(fabric, partial(work, n), LEAST_S, MOST_REPEATS) for n in sizes}
    taken: dict[int, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for n in sizes:
            taken[n].append(slowest(fabric, partial(work, n), times[n]) / times[n])
    return taken


def neighbours(fabric: Fabric, sizes: Sequence[int], rounds: int) -> Fitted:
    """seconds = alpha + n beta of one message to the right, while one comes from the left."""
    p, me = fabric.size, fabric.rank
    buffers = {n: (torch.zeros(n // FLOAT32), torch.zeros(n // FLOAT32)) for n in sizes}

    def exchange(n: int) -> None:
        mine, incoming = buffers[n]
        receive, send = fabric.sendrecv(mine, (me + 1) % p, incoming, (me - 1) % p, WIRE_TAG)
        receive.wait()
        send.wait()

    taken = measure(fabric, exchange, sizes, rounds)
    points = medians(taken)
    return Fitted(fit(points), described(points, taken, fit_alpha_beta(points)))


def native(fabric: Any, sizes: Sequence[int], rounds: int, blocking: bool = False) -> Fitted:
    """The network on which a ring would take as long as the library's own allreduce; `sizes`: bytes of a ring's block.

    Whatever algorithm the library chooses, its virtual twin is a ring; its summation is in beta. blocking: of the call
    that blocks (MPI), for which the library may choose another.
    """
    p = fabric.size
    vectors = {n: torch.zeros(p * n // FLOAT32) for n in sizes}

    def work(n: int) -> None:
        if blocking:
            fabric.blocking_allreduce(vectors[n])
        else:
            fabric.native_allreduce(vectors[n]).wait()

    taken = measure(fabric, work, sizes, rounds)
    points, messages = medians(taken), 2 * (p - 1)
    straight = fit_alpha_beta(points, lambda n: (messages, messages * n))
    return Fitted(fit(points, messages), described(points, taken, straight))


def medians(taken: dict[int, list[float]]) -> list[tuple[int, float]]:
    return [(n, statistics.median(seconds)) for n, seconds in taken.items()]


def described(
    points: Sequence[tuple[int, float]], taken: dict[Any, list[float]], fitted: Fit
) -> list[dict[str, float]]:
    """Points of a result (`results.Point`)."""
    return [
        {"bytes": n, "seconds": s, "min": min(taken[n]), "max": max(taken[n]), "fitted_s": s - rest}
        for (n, s), rest in zip(points, fitted.residuals)
    ]
