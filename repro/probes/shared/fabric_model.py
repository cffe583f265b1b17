"""Models fitted to measurements of the fabric: links, and alpha, beta, gamma and S of Pipe-SGD's equation (5).

Every rank sends to its right and receives from its left at once, so that each link carries as much as in a ring's hop.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from repro.algorithms.timing.collective_forms import FLOAT32, largest_block
from repro.algorithms.timing.fit import Fit, fit_alpha_beta
from repro.fabric.base import Fabric
from repro.fabric.collectives.compressed import CompressedAllreduce
from repro.fabric.costs import Costs
from repro.fabric.virtual.network import Network
from repro.probes import ResultPart
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.stopwatch import count_repetitions, slowest_seconds, synchronize_device

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


SMALLEST_MESSAGE = FLOAT32  # bytes
Work = Callable[[], Any]


@dataclass(frozen=True)
class FabricModel:
    """alpha, sync: seconds; beta: seconds a byte; work: "reduce", "encode/CODEC" or "decode/CODEC" -> seconds a byte.

    points: `Point`s; relative_error: the largest error of the fit at a point.
    """

    alpha: float
    beta: float
    sync: float
    work: dict[str, float]
    points: list[dict[str, float]]
    relative_error: float

    @property
    def gamma(self) -> float:
        return self.work["reduce"]

    @property
    def costs(self) -> Costs:
        return Costs(True, self.work, {"sync": self.sync})

    def as_result(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(fit, codecs) of the probe's result."""
        fit = {
            "alpha_s": self.alpha,
            "beta_s_per_byte": self.beta,
            "gamma_s_per_byte": self.gamma,
            "sync_s": self.sync,
            "relative_error": self.relative_error,
            "points": self.points,
        }
        codecs: dict[str, Any] = {}
        for kind, cost in self.work.items():
            way, _, codec = kind.partition("/")
            if codec:
                codecs.setdefault(codec, {})[f"{way}_s_per_byte"] = cost
        return fit, codecs


class Microbenchmark:
    """Measures a fabric of two or more ranks, turn by turn; every rank calls it and gets the same numbers.

    One world size cannot separate S from 2(p-1) alpha in a ring's intercept. So alpha comes from a ping-pong between
    neighbours, all pairs at once, and S is the rest of the intercept (0 if there is none; then alpha is the
    intercept's share). gamma and beta multiply the same bytes: gamma comes from the summation alone of a gradient's
    block, all ranks at once, and beta is the rest of the ring's slope.
    """

    def __init__(
        self,
        fabric: Fabric,
        gradient_bytes: int,
        sizes: Sequence[int],
        codecs: Sequence[str],
        device: torch.device,
    ):
        self.fabric, p = fabric, fabric.size
        whole = dict.fromkeys(math.ceil(n / (FLOAT32 * p)) * FLOAT32 * p for n in sizes)  # bytes in p equal blocks
        vectors = {n: torch.zeros(n // FLOAT32, device=device) for n in whole}
        self.rings = {n: partial(fabric.allreduce, vector, algorithm="ring") for n, vector in vectors.items()}
        block = largest_block(p, gradient_bytes)
        self.works = {"reduce": (block, make_summation(fabric, block, device))}
        for name in codecs:
            compress, decompress = codec_work(fabric, gradient_bytes, name, device)
            self.works[f"encode/{name}"] = (gradient_bytes, compress)
            self.works[f"decode/{name}"] = (gradient_bytes, decompress)
        self.works["ping-pong"] = (1, _ping_pong(fabric, device))
        self.repetitions: dict[str, int] = {}
        self.seconds: dict[Any, list[float]] = defaultdict(list)  # by a ring's bytes, or (s/byte) by the kind of work

    def turn(self, rounds: int) -> None:
        """Measure everything `rounds` times, alternating between the ring's sizes."""
        if not self.repetitions:
            for ring in self.rings.values():
                ring()  # fresh pages
            self.repetitions = {name: count_repetitions(self.fabric, work) for name, (_, work) in self.works.items()}
        for _ in range(rounds):
            for n, ring in self.rings.items():
                self.seconds[n].append(slowest_seconds(self.fabric, ring))
            for name, (nbytes, work) in self.works.items():
                times = self.repetitions[name]
                self.seconds[name].append(slowest_seconds(self.fabric, work, times) / times / nbytes)

    def model(self) -> FabricModel:
        """Medians over all turns, and the fit."""
        p, messages = self.fabric.size, 2 * (self.fabric.size - 1)
        medians = {name: statistics.median(seconds) for name, seconds in self.seconds.items()}
        points = [(n, medians[n]) for n in self.rings]
        # fit.beta is beta + gamma / 2, and fit.alpha the ring's intercept
        fit = fit_alpha_beta(points, lambda n: (1.0, messages * largest_block(p, n)))
        gamma = min(medians["reduce"], 2 * fit.beta)
        beta = fit.beta - gamma / 2
        alpha = min(max(0.0, medians["ping-pong"] / 2 - SMALLEST_MESSAGE * beta), fit.alpha / messages)
        work = {name: medians[name] for name in self.works if name != "ping-pong"} | {"reduce": gamma}
        sync = max(0.0, fit.alpha - messages * alpha)
        return FabricModel(alpha, beta, sync, work, as_points(self.seconds, points, fit), fit.relative_error)


def make_summation(fabric: Fabric, block: int, device: torch.device) -> Work:
    """The summation of one hop on this rank: a block of `block` bytes is added to another."""
    mine, incoming = (torch.zeros(block // FLOAT32, device=device) for _ in range(2))
    cost = fabric.costs.seconds("reduce", block)

    def work() -> None:
        with fabric.compute(cost, "host"):
            mine.add_(incoming)
        synchronize_device(device)

    return work


def codec_work(fabric: Fabric, gradient_bytes: int, name: str, device: torch.device) -> tuple[Work, Work]:
    """(compression, decompression) of a whole gradient."""
    elements = gradient_bytes // FLOAT32
    allreduce = CompressedAllreduce(fabric, elements, name, "ring")
    gradient = torch.empty(elements, device=device)
    if device.type != "meta":
        gradient.normal_(generator=torch.Generator(device).manual_seed(1))
    out = torch.zeros_like(gradient)
    wire = allreduce.compress(gradient)

    def compress() -> None:
        allreduce.compress(gradient)
        synchronize_device(device)

    def decompress() -> None:
        allreduce.decompress(wire, out)
        synchronize_device(device)

    return compress, decompress


def _ping_pong(fabric: Fabric, device: torch.device) -> Work:
    """The smallest message to the neighbour and back (0 and 1, 2 and 3 ...)."""
    partner = fabric.rank ^ 1
    message = torch.zeros(SMALLEST_MESSAGE // FLOAT32, device=device)

    def work() -> None:
        if partner >= fabric.size:
            return
        if fabric.rank < partner:
            fabric.send(message, partner)
            fabric.recv(message, partner)
        else:
            fabric.recv(message, partner)
            fabric.send(message, partner)

    return work
