"""`Fabric` with an allreduce whose algorithm is chosen by name; for "auto" the size from which the pipelined ring is
faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from repro.fabric.base import MAIN, DoneWork, Fabric, Work
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.auto import NATIVE, RING, Crossover, Point
from repro.fabric.collectives.pipelined import ring_pipelined
from repro.fabric.meta_tensors import divide_tensor


class FabricWithAlgorithms(Fabric):
    """The base of real and virtual fabrics: reductions by the algorithms of `repro.fabric.collectives.dense`."""

    def allreduce(
        self, tensor: torch.Tensor, op: str = "sum", channel: int = MAIN, async_: bool = False, algorithm: str = "auto"
    ) -> Work:
        if algorithm == "auto":
            algorithm = NATIVE if async_ or self.auto is None else self.auto.algorithm(tensor)
        if algorithm == NATIVE:
            work = self.native_allreduce(tensor, channel)
            if not async_ or op == "mean":
                work.wait()
        else:
            collectives.allreduce_algorithm(algorithm)(self, tensor, channel)
            work = DoneWork()
        if op == "mean":
            divide_tensor(tensor, self.size)
        return work

    def settle_auto(self) -> None:
        if self.auto is None:
            self.auto = self.find_auto()

    def find_auto(self) -> Crossover:
        """The choice for "auto" on this fabric; in virtual time always the textbook ring."""
        return Crossover(None, "virtual time: the library's allreduce is the textbook's ring, nothing is measured")

    def reduce_scatter(self, tensor: torch.Tensor, channel: int = MAIN) -> torch.Tensor:
        return collectives.ring_reduce_scatter(self, tensor, channel)


GROWTH = 4
SIZES = tuple(GROWTH**power for power in range(8, 13))  # bytes: 64 KiB to 16 MiB
REPEAT = 2
BUDGET_S = 2.0  # of real time; a size is skipped if the time of the one before suggests that it would exceed the rest
CLEARLY = 0.95  # the ring is chosen if it takes less than this share of the library's time
FLOAT32 = 4


def find_crossover(fabric: Fabric, timing: Callable[[Fabric, str, int], float] | None = None) -> Crossover:
    """Measure the crossover, the same on all ranks; all call it, before training.

    timing: (fabric, algorithm, bytes) -> this rank's seconds of one allreduce.
    """
    if fabric.size == 1:
        return Crossover(None, "one rank: nothing to exchange")
    points: list[Point] = []
    began = time.perf_counter()
    fabric.exchange(None)  # this polls, so a late rank finds the cores free
    for nbytes in SIZES:
        started = time.perf_counter()
        warm_up = not points  # opens connections
        turns = [
            [(timing or time_allreduce)(fabric, name, nbytes) for name in (NATIVE, RING)]
            for _ in range(REPEAT + warm_up)
        ]
        took = time.perf_counter() - started
        seen, times, starts = zip(*fabric.exchange((turns, took, started - began)))
        # the slowest rank's time of each repetition
        slowest = [[max(rank[turn][side] for rank in seen) for side in (0, 1)] for turn in range(len(turns))]
        points.append(Point(nbytes, *(min(turn[side] for turn in slowest[warm_up:]) for side in (0, 1))))
        if max(starts) + (1 + GROWTH) * max(times) > BUDGET_S:
            break
    return decide_crossover(points)


def decide_crossover(points: Sequence[Point]) -> Crossover:
    """The smallest size such that the ring was faster at it and at all larger measured sizes."""
    above = None
    for point in reversed(points):
        if point.ring_s >= CLEARLY * point.native_s:
            break
        above = point.bytes
    largest = points[-1].bytes
    if above is None:
        why = f"at {largest} bytes, the largest measured, the ring is not clearly faster"
    else:
        why = f"the ring is faster at all sizes measured from {above} to {largest} bytes"
    return Crossover(above, f"measured at start: {why}", tuple(points))


def time_allreduce(fabric: Fabric, name: str, nbytes: int) -> float:
    """This rank's seconds of one allreduce, after a barrier."""
    # the emulated fabric shrinks meta tensors, which training without arithmetic sends
    vector = torch.zeros(nbytes // FLOAT32, device="meta" if "sizes" in fabric.capabilities else "cpu")
    fabric.barrier()
    began = fabric.now()
    if name == NATIVE:
        fabric.native_allreduce(vector, MAIN).wait()
    else:
        ring_pipelined(fabric, vector, MAIN)
    return fabric.now() - began
