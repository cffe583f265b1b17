"""Work timed on the slowest rank."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro.fabric.base import Fabric


def slowest(fabric: Fabric, work: Callable[[], Any], times: int = 1) -> float:
    """Seconds of so many `work()` on the slowest rank, all having started together; every rank gets the number."""
    meet(fabric)
    began = fabric.now()
    for _ in range(times):
        work()
    return max(fabric.exchange(fabric.now() - began))


def meet(fabric: Fabric) -> None:
    """All ranks go on from here together."""
    fabric.exchange(None)  # polls: a rank that is late finds the cores free
    fabric.barrier()


def repeats(fabric: Fabric, work: Callable[[], Any], least_s: float = 2e-3, most: int = 200) -> int:
    """How often short work is repeated within one measurement, until it takes `least_s`; the same on every rank."""
    work()  # fresh pages, connections
    return max(1, min(most, math.ceil(least_s / max(slowest(fabric, work), 1e-9))))


def spread(times: Sequence[float]) -> dict[str, float]:
    """{median, min, max}."""
    return {"median": statistics.median(times), "min": min(times), "max": max(times)}


def synchronize(device: torch.device) -> None:
    """Wait for a GPU; of a CPU there is nothing to wait for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
