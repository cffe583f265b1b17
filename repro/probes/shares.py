"""Program `shares`: how unevenly messages share links while every rank sends to every other rank."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.errors import InputError
from repro.core.fields import Count, Model
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes import ResultPart
from repro.probes.shared.options import Bytes
from repro.probes.shared.stopwatch import start_together

TAG = 13


class Options(Model):
    sizes: Annotated[list[Bytes], Field(min_length=1)]
    runs: Count  # of each size, after an uncounted one


class SizeRates(ResultPart):
    """spread: standard deviation of the logarithms of the mean rates of messages to one rank, relative to the mean of
    that rank and run. first_s, last_s: arrival of the first and of the last of all messages, medians over the runs."""

    bytes: int
    runs: int
    spread: float
    first_s: float
    last_s: float


class Result(ResultPart):
    points: list[SizeRates]


def check(config: RunConfig) -> None:
    """InputError for fewer workers than it takes for two messages to share a link."""
    if config.workers < 3:
        raise InputError(f"workers={config.workers}: program {config.program} needs 3 or more; 2 share no link")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    probes.announce_iterations(1, fabric.rank)
    points = [measure_size(fabric, n, probe.runs) for n in probe.sizes]
    probes.report_progress(1, fabric.rank)
    metrics = {f"spread/{point['bytes']}": point["spread"] for point in points}
    line = ", ".join(f"{point['bytes']} bytes: {point['spread']:.2%}" for point in points)
    return probes.Finding({"points": points}, metrics, f"spread {line}")


def measure_size(fabric: Fabric, nbytes: int, runs: int) -> dict[str, Any]:
    """A size's entry of the result, the same on every rank."""
    times = [_arrivals(fabric, nbytes) for _ in range(runs + 1)][1:]
    ranks = fabric.exchange(times)
    firsts = [min(map(min, turn)) for turn in zip(*ranks)]
    lasts = [max(map(max, turn)) for turn in zip(*ranks)]
    variances = [statistics.variance(map(math.log, arrivals)) for rank in ranks for arrivals in rank]
    return {
        "bytes": nbytes,
        "runs": runs,
        "spread": math.sqrt(statistics.fmean(variances)),
        "first_s": statistics.median(firsts),
        "last_s": statistics.median(lasts),
    }


def _arrivals(fabric: Fabric, nbytes: int) -> Sequence[float]:
    """Seconds from the common start to the arrival of each other rank's message, in order of arrival."""
    others = [(fabric.rank + step) % fabric.size for step in range(1, fabric.size)]
    message = torch.zeros(nbytes // FLOAT32)
    receives = [fabric.irecv(torch.empty_like(message), other, TAG) for other in others]
    start_together(fabric)
    start, arrivals = fabric.now(), []
    sends = [fabric.isend(message, other, TAG) for other in others]
    while receives:
        receives.pop(fabric.wait_any(receives))
        arrivals.append(fabric.now() - start)
    fabric.wait_all(sends)
    return arrivals
