"""Network models fitted to measurements of the fabric; virtual twins of strategies run on them.

Every rank sends to its right and receives from its left at once, so that each link carries as much as in a ring's hop.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.fit import Fit, fit_alpha_beta
from repro.fabric.base import Fabric
from repro.fabric.virtual.network import Network
from repro.probes import ResultPart
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.stopwatch import count_repetitions, slowest_seconds

LEAST_S, MOST_REPETITIONS = 0.02, 50  # of one measurement, in which short work is repeated
WIRE_TAG = 7
LONG = 1 << 20  # bytes: the link's slope is that of messages of this size or more


class Point(ResultPart):
    """Times of messages of one size, and the fitted model's time (s)."""

    bytes: int
    seconds: float
    min: float
    max: float
    fitted_s: float


@dataclass(frozen=True)
class Fitted:
    """A fitted network, and the measured points (`Point`s).

    network: beta (seconds a byte) is the slope of long messages, `by_size` the time that each measured size takes
    besides, alpha that of the shortest. points: their fitted_s come from one alpha and one beta fitted to all sizes,
    as closed forms use them.
    """

    network: Network
    points: list[dict[str, float]]

    def as_result(self) -> dict[str, Any]:
        return {
            "alpha_s": self.network.alpha,
            "beta_s_per_byte": self.network.beta,
            "alpha_by_size": [{"bytes": n, "alpha_s": alpha} for n, alpha in self.network.by_size],
            "points": self.points,
        }


def fit_network(points: Sequence[tuple[int, float]], messages: int = 1) -> Network:
    """The network on which `messages` messages of n bytes, one after the other, take the measured (n, seconds).

    Concurrent messages share its links, as TCP connections do.
    """
    each = sorted((n, seconds / messages) for n, seconds in points)
    long = [point for point in each if point[0] >= LONG]
    beta = fit_alpha_beta(long if len(long) > 1 else each[-2:]).beta
    by_size = tuple((n, max(0.0, seconds - n * beta)) for n, seconds in each)
    return Network(by_size[0][1], beta, by_size, fair=True)


def fit_neighbours(fabric: Fabric, sizes: Sequence[int], rounds: int) -> Fitted:
    """The network on which one message to the right, while one comes from the left, takes alpha + n beta."""
    p, me = fabric.size, fabric.rank
    buffers = {n: (torch.zeros(n // FLOAT32), torch.zeros(n // FLOAT32)) for n in sizes}

    def exchange(n: int) -> None:
        mine, incoming = buffers[n]
        receive, send = fabric.sendrecv(mine, (me + 1) % p, incoming, (me - 1) % p, WIRE_TAG)
        receive.wait()
        send.wait()

    return _fitted(fabric, exchange, sizes, rounds, 1)


def fit_native(fabric: Any, sizes: Sequence[int], rounds: int, blocking: bool = False) -> Fitted:
    """The network on which a ring would take as long as the library's allreduce; `sizes`: bytes of a ring's block.

    The virtual twin is a ring whatever algorithm the library chooses, and beta includes the library's summation.
    blocking: measure MPI's blocking call, for which the library may choose another algorithm.
    """
    p = fabric.size
    vectors = {n: torch.zeros(p * n // FLOAT32) for n in sizes}

    def allreduce(n: int) -> None:
        if blocking:
            fabric.blocking_allreduce(vectors[n])
        else:
            fabric.native_allreduce(vectors[n]).wait()

    return _fitted(fabric, allreduce, sizes, rounds, 2 * (p - 1))


def _fitted(fabric: Fabric, work: Callable[[int], Any], sizes: Sequence[int], rounds: int, messages: int) -> Fitted:
    """Time `work(bytes)` on the slowest rank, `rounds` times a size in turns, and fit; the same on every rank."""
    times = {n: count_repetitions(fabric, partial(work, n), LEAST_S, MOST_REPETITIONS) for n in sizes}
    calls = {n: lambda n=n: slowest_seconds(fabric, partial(work, n), times[n]) / times[n] for n in sizes}
    seconds = run_in_turns(calls, rounds, uncounted=0)
    points = [(n, statistics.median(each)) for n, each in seconds.items()]
    straight = fit_alpha_beta(points, lambda n: (messages, messages * n))
    return Fitted(fit_network(points, messages), as_points(seconds, points, straight))


def as_points(
    seconds: Mapping[Any, Sequence[float]], medians: Sequence[tuple[int, float]], fitted: Fit
) -> list[dict[str, float]]:
    """As `Point`s, as plain data."""
    return [
        {"bytes": n, "seconds": s, "min": min(seconds[n]), "max": max(seconds[n]), "fitted_s": s - residual}
        for (n, s), residual in zip(medians, fitted.residuals)
    ]
