"""Program `p2p`: seconds of messages of several sizes between ranks 0 and 1 (gTop-k section IV-C, Figure 8)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from repro import probes
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.fit import fit_alpha_beta
from repro.core.fields import Count, Model
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes import ResultPart
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.options import Sizes, needs_several

TAG = 11
LEAST_S, MOST_ROUND_TRIPS = 0.02, 200  # of one measurement, which repeats a short message


class Options(Model):
    sizes: Sizes  # of the messages, measured in turns
    runs: Count  # measurements of each size (the paper: 5)


class OneWay(ResultPart):
    """One-way time (s), half of the round trip: mean and deviation over the runs, and the fitted line's."""

    bytes: int
    mean_s: float
    deviation_s: float
    runs: int
    fitted_s: float


class Line(ResultPart):
    alpha_s: float
    beta_s_per_byte: float
    relative_error: float


class Result(ResultPart):
    points: list[OneWay]
    fit: Line


def check(config: RunConfig) -> None:
    needs_several(config, "two of which exchange messages")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    probes.announce_iterations(1, fabric.rank)
    points = measure_points(fabric, probe.sizes, probe.runs)
    fitted = fit_points(points)
    probes.report_progress(1, fabric.rank)
    metrics = {f"seconds/{point['bytes']}": point["mean_s"] for point in points}
    metrics |= {name: fitted[name] for name in ("alpha_s", "beta_s_per_byte")}
    line = (
        f"alpha {1e3 * fitted['alpha_s']:.3g} ms, beta {1e3 * fitted['beta_s_per_byte']:.3g} ms a byte, "
        f"off by at most {fitted['relative_error']:.1%}"
    )
    return probes.Finding({"points": points, "fit": fitted}, metrics, line)


def measure_points(fabric: Fabric, sizes: Sequence[int], runs: int) -> list[dict[str, Any]]:
    """The result's points without `fitted_s`: the one-way time of each size, mean and deviation over the runs.

    One way is half of the round trip, as in the OSU microbenchmarks. Every rank calls it and gets the same; ranks above
    1 only wait.
    """
    messages = {n: torch.zeros(n // FLOAT32) for n in sizes}
    round_trips = {}
    for n, message in messages.items():
        _one_way(fabric, message, 1)  # connections, fresh pages
        once = _one_way(fabric, message, 1)
        exact = fabric.costs.known  # virtual time: all runs are equal
        round_trips[n] = 1 if exact else max(1, min(MOST_ROUND_TRIPS, math.ceil(LEAST_S / max(2 * once, 1e-9))))
    calls = {n: partial(_one_way, fabric, message, round_trips[n]) for n, message in messages.items()}
    return [
        {
            "bytes": n,
            "mean_s": statistics.fmean(times),
            "deviation_s": statistics.stdev(times) if runs > 1 else 0.0,
            "runs": runs,
        }
        for n, times in run_in_turns(calls, runs, uncounted=0).items()
    ]


def _one_way(fabric: Fabric, message: torch.Tensor, round_trips: int) -> float:
    """Mean seconds of one way over the round trips, by rank 0's clock."""
    fabric.exchange(None)
    start = fabric.now()
    for _ in range(round_trips):
        if fabric.rank == 0:
            fabric.send(message, 1, TAG)
            fabric.recv(message, 1, TAG)
        elif fabric.rank == 1:
            fabric.recv(message, 0, TAG)
            fabric.send(message, 0, TAG)
    return fabric.exchange(fabric.now() - start)[0] / round_trips / 2


def fit_points(points: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Fit mean_s = alpha + beta bytes, and add `fitted_s` to each point."""
    fitted = fit_alpha_beta([(point["bytes"], point["mean_s"]) for point in points])
    for point, residual in zip(points, fitted.residuals):
        point["fitted_s"] = point["mean_s"] - residual
    return {"alpha_s": fitted.alpha, "beta_s_per_byte": fitted.beta, "relative_error": fitted.relative_error}
