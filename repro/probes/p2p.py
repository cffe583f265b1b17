"""Program `p2p`: how long messages of different sizes take between ranks 0 and 1 (gTop-k section IV-C, Figure 8)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from repro import probes
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.fit import fit_alpha_beta
from repro.core.fields import Count, Model
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared.options import Sizes, needs_several

TAG = 11
LEAST_S, MOST_REPEATS = 0.02, 200  # a run repeats a short message until it takes that long


class Options(Model):
    """runs: how often each is measured (the paper: 5); a run of a short message is many round trips."""

    sizes: Sizes  # of the messages, which take turns
    runs: Count


def check(config: RunConfig) -> None:
    """InputError without two workers."""
    needs_several(config, "of whom two talk")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part."""
    probe = config.probe
    probes.start(fabric, 1)
    points = measure(fabric, probe.sizes, probe.runs)
    fitted = fit(points)
    probes.progress(fabric, 1)
    result = {"points": points, "fit": fitted}
    metrics = {f"seconds/{point['bytes']}": point["mean_s"] for point in points}
    metrics |= {name: fitted[name] for name in ("alpha_s", "beta_s_per_byte")}
    return probes.Finding(result, metrics, line(fitted))


def line(fitted: dict[str, float]) -> str:
    return (
        f"alpha {1e3 * fitted['alpha_s']:.3g} ms, beta {1e3 * fitted['beta_s_per_byte']:.3g} ms a byte, "
        f"off by at most {fitted['relative_error']:.1%}"
    )


def measure(fabric: Fabric, sizes: Sequence[int], runs: int) -> list[dict[str, Any]]:
    """The points of a result, which `fit` completes: over so many runs, of the mean one-way time of each.

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
    """The fit of mean_s = alpha + beta bytes; each point gets its `fitted_s`."""
    found = fit_alpha_beta([(point["bytes"], point["mean_s"]) for point in points])
    for point, residual in zip(points, found.residuals):
        point["fitted_s"] = point["mean_s"] - residual
    return {"alpha_s": found.alpha, "beta_s_per_byte": found.beta, "relative_error": found.relative_error}
