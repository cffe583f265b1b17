"""Program `sparse_collectives`: measured collectives against Table I of gTop-k (section IV-C, Figure 9).

A collective is timed from each rank's selected elements (dense: from the gradient) to the last rank's result, without
selection and with merging.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.sparse_forms import Algorithm, sparse_collective
from repro.core.errors import InputError
from repro.core.fields import Count, Model, Share
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Modelled
from repro.fabric.base import Fabric
from repro.fabric.real.gpus import pick_device
from repro.fabric.sparse.collectives import gtopk_allreduce, topk_allgather
from repro.fabric.sparse.gradients import Wire
from repro.fabric.sparse.selection import select_topk
from repro.probes import ResultPart, p2p
from repro.probes.shared.driver import measure_settings, run_in_turns
from repro.probes.shared.options import Bytes, Sizes, Worlds, needs_ranks
from repro.probes.shared.stopwatch import Spread, slowest_seconds, time_spread


class Options(Model):
    """Every algorithm runs on gradients of every size, on every number of ranks."""

    algorithms: Annotated[list[Algorithm], Field(min_length=1)]
    ranks: Worlds  # the first ranks of the run; the others wait
    bytes: Annotated[list[Bytes], Field(min_length=1)]  # of the gradients (m)
    density: Share  # rho: each rank selects k = round(rho x parameters) elements
    repeat: Count  # turns, after an uncounted one; virtual time takes one
    runs: Count  # of the ping-pong that measures a real network's alpha and beta
    sizes: Sizes  # of its messages


class Network(ResultPart):
    """Parameters of the formulas: a testbed's own, or fitted to a ping-pong."""

    alpha_s: float
    beta_s_per_byte: float
    relative_error: float | None = None
    points: list[p2p.OneWay] = Field(default_factory=list)


class SparseExchange(ResultPart):
    """An algorithm's exchange; bytes: of the gradient; k: elements selected by a rank; wire_bytes: of a message;
    sent_bytes: per rank, the mean."""

    algorithm: str
    ranks: int
    bytes: int
    density: float
    k: int
    seconds: Spread
    closed_form_s: float
    wire_bytes: int
    sent_bytes: float


class Result(ResultPart):
    network: Network
    rows: list[SparseExchange]


def check(config: RunConfig) -> None:
    needs_ranks(config)
    for nbytes in config.probe.bytes:
        selected_count(nbytes, config.probe.density)


def selected_count(nbytes: int, density: float) -> int:
    """k for a gradient of `nbytes` bytes; InputError if it is 0."""
    elements = nbytes // FLOAT32
    k = round(density * elements)
    if k < 1:
        raise InputError(
            f"probe.density={density}: selects none of {elements} gradients ({nbytes} bytes); must be "
            f"{1 / elements:.3g} or more"
        )
    return k


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    modelled = isinstance(config.testbed, Modelled)  # messages have sizes, and no contents
    device = torch.device("meta") if modelled else pick_device(config.device, fabric.rank)
    settings = list(product(sorted({*probe.ranks}), probe.bytes))
    probes.announce_iterations(len(settings), fabric.rank)
    network = network_of(fabric, config)
    rows = measure_settings(
        fabric,
        settings,
        lambda group, nbytes: measure_algorithms(group, probe, nbytes, device, network, config.simulated),
    )
    metrics = {f"seconds/{row['algorithm']}/{row['ranks']}/{row['bytes']}": row["seconds"]["median"] for row in rows}
    ratios = sorted(row["seconds"]["median"] / row["closed_form_s"] for row in rows)
    line = f"{len(rows)} collectives, {ratios[0]:.3g} to {ratios[-1]:.3g} times Table I's formulas" if rows else ""
    return probes.Finding({"network": network, "rows": rows}, metrics, line)


def network_of(fabric: Fabric, config: RunConfig) -> dict[str, Any]:
    """alpha and beta for the formulas: a modelled testbed's, else fitted to a ping-pong between ranks 0 and 1."""
    testbed, probe = config.testbed, config.probe
    if isinstance(testbed, Modelled):
        return {"alpha_s": testbed.alpha_s, "beta_s_per_byte": testbed.beta_s_per_byte}
    points = p2p.measure_points(fabric, probe.sizes, probe.runs)
    return p2p.fit_points(points) | {"points": points}


def measure_algorithms(
    group: Fabric, probe: Options, nbytes: int, device: torch.device, network: dict[str, Any], simulated: bool
) -> list[dict[str, Any]]:
    """A row for each algorithm; every rank of `group` calls it and gets the same. simulated: take one turn."""
    k, p = selected_count(nbytes, probe.density), group.size
    calls = make_collectives(group, probe.algorithms, nbytes // FLOAT32, k, device)
    sent: dict[str, int] = {}

    def counted(name: str) -> None:
        before = group.bytes_sent
        calls[name]()
        sent[name] = group.bytes_sent - before

    timed = {name: partial(slowest_seconds, group, partial(counted, name)) for name in calls}
    seconds = run_in_turns(timed, 1, uncounted=0) if simulated else run_in_turns(timed, probe.repeat)
    means = {name: statistics.fmean(group.exchange(count)) for name, count in sent.items()}
    return [
        {
            "algorithm": name,
            "ranks": p,
            "bytes": nbytes,
            "density": probe.density,
            "k": k,
            "seconds": time_spread(times),
            "closed_form_s": sparse_collective(name, p, nbytes, k, network["alpha_s"], network["beta_s_per_byte"]),
            "wire_bytes": nbytes if name == "dense" else Wire(k).bytes,
            "sent_bytes": means[name],
        }
        for name, times in seconds.items()
    ]


def make_collectives(
    group: Fabric, names: Sequence[str], elements: int, k: int, device: torch.device
) -> dict[str, Callable[[], Any]]:
    """Name -> call; the gradients are normal draws, different on each rank."""
    vector = torch.zeros(elements, device=device)
    if device.type != "meta":
        vector.normal_(generator=torch.Generator(device).manual_seed(1 + group.rank))
    mine, wire = select_topk(vector, k), Wire(k)
    known: dict[str, Callable[[], Any]] = {
        "dense": lambda: group.allreduce(vector, algorithm="ring"),
        "topk": lambda: topk_allgather(group, wire.pack(mine), wire),
        "topk_ring": lambda: topk_allgather(group, wire.pack(mine), wire, algorithm="ring"),
        "gtopk": lambda: gtopk_allreduce(group, mine, wire),
    }
    return {name: known[name] for name in names}
