"""A message from rank 0 to rank 1 and back: the time of one way, by size, and the alpha-beta fit (gTop-k, Figure 8)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import torch

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.fit import fit_alpha_beta
from repro.fabric.base import Fabric

TAG = 11
LEAST_S, MOST_REPEATS = 0.02, 200  # a run repeats a short message until it takes that long


def measure(fabric: Fabric, sizes: Sequence[int], runs: int) -> list[dict[str, Any]]:
    """{bytes, mean_s, deviation_s, runs} for each size: over so many runs, of the mean one-way time of each.

    One way is half of the round trip, as the OSU microbenchmark counts it. The sizes take turns. Every rank calls it
    and gets the same; those above 1 only wait.
    """
    balls = {n: torch.zeros(n // FLOAT32) for n in sizes}
    repeats = {}
    for n, ball in balls.items():
        _one_way(fabric, ball, 1)  # connections, fresh pages
        once = _one_way(fabric, ball, 1)
        exact = fabric.costs.known  # virtual time: no run differs from another
        repeats[n] = 1 if exact else max(1, min(MOST_REPEATS, math.ceil(LEAST_S / max(2 * once, 1e-9))))
    taken: dict[int, list[float]] = {n: [] for n in sizes}
    for _ in range(runs):
        for n, ball in balls.items():
            taken[n].append(_one_way(fabric, ball, repeats[n]))
    return [
        {
            "bytes": n,
            "mean_s": statistics.fmean(times),
            "deviation_s": statistics.stdev(times) if runs > 1 else 0.0,
            "runs": runs,
        }
        for n, times in taken.items()
    ]


def _one_way(fabric: Fabric, ball: torch.Tensor, times: int) -> float:
    """Mean seconds of one way of so many round trips, by rank 0's clock."""
    fabric.exchange(None)
    began = fabric.now()
    for _ in range(times):
        if fabric.rank == 0:
            fabric.send(ball, 1, TAG)
            fabric.recv(ball, 1, TAG)
        elif fabric.rank == 1:
            fabric.recv(ball, 0, TAG)
            fabric.send(ball, 0, TAG)
    return fabric.exchange(fabric.now() - began)[0] / times / 2


def fit(points: Sequence[dict[str, Any]]) -> dict[str, float]:
    """{alpha_s, beta_s_per_byte, relative_error} of mean_s = alpha + beta bytes; each point gets its `fitted_s`.

    Every point counts by its relative error, so that the short messages, which tell alpha, are not drowned.
    """
    found = fit_alpha_beta([(point["bytes"], point["mean_s"]) for point in points])
    for point, residual in zip(points, found.residuals):
        point["fitted_s"] = point["mean_s"] - residual
    return {"alpha_s": found.alpha, "beta_s_per_byte": found.beta, "relative_error": found.relative_error}
