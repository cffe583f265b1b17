"""Timing of work across ranks: common start, slowest rank, number of repetitions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro.fabric.base import Fabric
from repro.probes import ResultPart


class Spread(ResultPart):
    """Statistics over repetitions of a measurement."""

    median: float
    min: float
    max: float


def start_together(fabric: Fabric) -> None:
    fabric.exchange(None)  # polls, so that ranks that wait leave their cores to late ones
    fabric.barrier()


def slowest_seconds(fabric: Fabric, work: Callable[[], Any], times: int = 1) -> float:
    """Seconds that the slowest rank takes for `times` calls of `work`, after a common start; the same on every rank."""
    start_together(fabric)
    start = fabric.now()
    for _ in range(times):
        work()
    return max(fabric.exchange(fabric.now() - start))


def count_repetitions(fabric: Fabric, work: Callable[[], Any], least_s: float = 2e-3, most: int = 200) -> int:
    """How many calls of `work` take `least_s` together, at most `most`; the same on every rank."""
    work()  # fresh pages, connections
    return max(1, min(most, math.ceil(least_s / max(slowest_seconds(fabric, work), 1e-9))))


def time_spread(times: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(times), "min": min(times), "max": max(times)}


def synchronize_device(device: torch.device) -> None:
    """Wait until a GPU has finished its work; nothing on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
