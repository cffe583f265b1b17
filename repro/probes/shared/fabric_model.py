"""A microbenchmark of the fabric in use: alpha, beta, gamma and S of Pipe-SGD equation (5), and what codecs cost."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro.algorithms.timing.collective_forms import FLOAT32, largest_block
from repro.algorithms.timing.fit import fit_alpha_beta
from repro.fabric.base import Fabric
from repro.fabric.collectives.compressed import CompressedAllreduce
from repro.fabric.costs import Costs
from repro.probes.shared.network import described
from repro.probes.shared.stopwatch import repeats, slowest, synchronize

SMALLEST_MESSAGE = FLOAT32  # bytes


@dataclass(frozen=True)
class FabricModel:
    """alpha, sync: seconds; beta, gamma: seconds a byte; encode, decode: codec -> seconds a byte of float32 data.

    points: {bytes, seconds (median over rounds of the slowest rank), min, max, fitted_s}; relative_error: the largest.
    """

    alpha: float
    beta: float
    gamma: float
    sync: float
    encode: dict[str, float]
    decode: dict[str, float]
    points: list[dict[str, float]]
    relative_error: float

    def costs(self) -> Costs:
        """What the closed forms ask for."""
        per_byte = {"reduce": self.gamma}
        per_byte |= {f"encode/{name}": cost for name, cost in self.encode.items()}
        per_byte |= {f"decode/{name}": cost for name, cost in self.decode.items()}
        return Costs(True, per_byte, {"sync": self.sync})

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
        codecs = {
            name: {"encode_s_per_byte": self.encode[name], "decode_s_per_byte": self.decode[name]}
            for name in self.encode
        }
        return fit, codecs


class Microbenchmark:
    """Measures a fabric of at least two ranks, turn by turn; every rank calls it and gets the same numbers.

    alpha and S are measured apart, for one world size cannot tell S from 2(p-1) alpha: alpha by a ping-pong between
    neighbours, all pairs at once; S is what the ring's intercept has left (0 where nothing is, and then alpha is the
    intercept's share). gamma and beta, which multiply the same bytes, likewise: gamma by the summation alone of a
    gradient's block, all ranks at once; beta is what the ring's slope has left.
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
        vectors = {n: torch.zeros(n // FLOAT32, device=device) for n in (_in_whole_blocks(n, p) for n in sizes)}
        self.rings = {n: _ring(fabric, vector) for n, vector in vectors.items()}
        block = largest_block(p, gradient_bytes)
        self.works = {"reduce": (block, summation(fabric, block, device))}
        for name in codecs:
            compress, decompress = codec_work(fabric, gradient_bytes, name, device)
            self.works[f"encode/{name}"] = (gradient_bytes, compress)
            self.works[f"decode/{name}"] = (gradient_bytes, decompress)
        self.works["ping-pong"] = (1, _ping_pong(fabric, device))
        self.repeats: dict[str, int] = {}
        self.taken: dict[Any, list[float]] = defaultdict(list)  # bytes of a ring, or a kind of work -> seconds

    def turn(self, rounds: int) -> None:
        """So many repetitions of everything, the ring's sizes in turns."""
        if not self.repeats:  # the first calls touch fresh pages
            for ring in self.rings.values():
                ring()
            self.repeats = {name: repeats(self.fabric, work) for name, (_, work) in self.works.items()}
        for _ in range(rounds):
            for n, ring in self.rings.items():
                self.taken[n].append(slowest(self.fabric, ring))
            for name, (nbytes, work) in self.works.items():
                times = self.repeats[name]
                seconds = slowest(self.fabric, work, times)
                self.taken[name].append(seconds / times / nbytes)

    def model(self) -> FabricModel:
        """Medians over all turns, and the fit."""
        p, messages = self.fabric.size, 2 * (self.fabric.size - 1)
        found = {name: statistics.median(seconds) for name, seconds in self.taken.items()}
        points = [(n, found[n]) for n in self.rings]
        # gamma's share of the slope is taken out below: here beta stands for beta + gamma / 2, alpha for the intercept
        fit = fit_alpha_beta(points, lambda n: (1.0, messages * largest_block(p, n)))
        gamma = min(found["reduce"], 2 * fit.beta)
        beta = fit.beta - gamma / 2
        alpha = min(max(0.0, found["ping-pong"] / 2 - SMALLEST_MESSAGE * beta), fit.alpha / messages)
        codecs = [name.partition("/")[2] for name in self.works if name.startswith("encode/")]
        return FabricModel(
            alpha=alpha,
            beta=beta,
            gamma=gamma,
            sync=max(0.0, fit.alpha - messages * alpha),
            encode={name: found[f"encode/{name}"] for name in codecs},
            decode={name: found[f"decode/{name}"] for name in codecs},
            points=described(points, self.taken, fit),
            relative_error=fit.relative_error,
        )


def _in_whole_blocks(n: int, p: int) -> int:
    """Bytes of the nearest vector, n or longer, that p ranks cut into equal blocks."""
    return math.ceil(n / (FLOAT32 * p)) * FLOAT32 * p


def _ring(fabric: Fabric, vector: torch.Tensor) -> Callable[[], Any]:
    return lambda: fabric.allreduce(vector, algorithm="ring")


def summation(fabric: Fabric, block: int, device: torch.device) -> Callable[[], Any]:
    """The sum of one hop: a block of so many bytes added into another, on this rank's own."""
    mine, incoming = (torch.zeros(block // FLOAT32, device=device) for _ in range(2))
    cost = fabric.costs.seconds("reduce", block)

    def work() -> None:
        with fabric.compute(cost, "host"):
            mine.add_(incoming)
        synchronize(device)

    return work


def codec_work(
    fabric: Fabric, gradient_bytes: int, name: str, device: torch.device
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Compressing and decompressing a whole gradient."""
    elements = gradient_bytes // FLOAT32
    allreduce = CompressedAllreduce(fabric, elements, name, "ring")
    gradient = torch.empty(elements, device=device)
    if device.type != "meta":
        gradient.normal_(generator=torch.Generator(device).manual_seed(1))
    out = torch.zeros_like(gradient)
    wire = allreduce.compress(gradient)

    def compress() -> None:
        allreduce.compress(gradient)
        synchronize(device)

    def decompress() -> None:
        allreduce.decompress(wire, out)
        synchronize(device)

    return compress, decompress


def _ping_pong(fabric: Fabric, device: torch.device) -> Callable[[], Any]:
    """The smallest message to the neighbour and back (0 and 1, 2 and 3 ...)."""
    partner = fabric.rank ^ 1
    ball = torch.zeros(SMALLEST_MESSAGE // FLOAT32, device=device)

    def work() -> None:
        if partner >= fabric.size:
            return
        if fabric.rank < partner:
            fabric.send(ball, partner)
            fabric.recv(ball, partner)
        else:
            fabric.recv(ball, partner)
            fabric.send(ball, partner)

    return work
