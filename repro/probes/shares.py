"""Program `shares`: how unevenly messages share links where every rank sends to every other at once."""

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
from repro.probes.shared.options import Bytes

TAG = 13


class Options(Model):
    """runs: how often each size is sent, after once that does not count."""

    sizes: Annotated[list[Bytes], Field(min_length=1)]
    runs: Count


def check(config: RunConfig) -> None:
    """InputError with too few for two messages to come to one."""
    if config.workers < 3:
        raise InputError(f"workers={config.workers}: program {config.program} needs 3 or more, so that messages share")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part."""
    probe = config.probe
    probes.start(fabric, 1)
    points = [measure(fabric, n, probe.runs) for n in probe.sizes]
    probes.progress(fabric, 1)
    metrics = {f"spread/{point['bytes']}": point["spread"] for point in points}
    line = ", ".join(f"{point['bytes']} bytes: {point['spread']:.2%}" for point in points)
    return probes.Finding({"points": points}, metrics, f"spread {line}")


def measure(fabric: Fabric, nbytes: int, runs: int) -> dict[str, Any]:
    """A size's entry of the result, the same on every rank."""
    times = [_arrivals(fabric, nbytes) for _ in range(runs + 1)][1:]
    everyone = fabric.exchange(times)
    firsts = [min(min(rank[turn]) for rank in everyone) for turn in range(runs)]
    lasts = [max(max(rank[turn]) for rank in everyone) for turn in range(runs)]
    found = [statistics.variance(map(math.log, arrivals)) for rank in everyone for arrivals in rank]
    return {
        "bytes": nbytes,
        "runs": runs,
        "spread": math.sqrt(statistics.fmean(found)),
        "first_s": statistics.median(firsts),
        "last_s": statistics.median(lasts),
    }


def _arrivals(fabric: Fabric, nbytes: int) -> Sequence[float]:
    """Seconds after the common start in which each other rank's message came."""
    others = [(fabric.rank + step) % fabric.size for step in range(1, fabric.size)]
    sent = torch.zeros(nbytes // FLOAT32)
    coming = [fabric.irecv(torch.empty_like(sent), other, TAG) for other in others]
    fabric.exchange(None)  # polls: a rank that is late finds the cores free
    fabric.barrier()
    began, found = fabric.now(), []
    leaving = [fabric.isend(sent, other, TAG) for other in others]
    while coming:
        coming.pop(fabric.wait_any(coming))
        found.append(fabric.now() - began)
    fabric.wait_all(leaving)
    return found
