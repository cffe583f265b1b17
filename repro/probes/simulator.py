"""Program `simulator`: the speed of the virtual fabric, in messages of a ring allreduce per CPU second."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing import collective_forms
from repro.core.fields import Count, Model
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.fabric.collectives import dense
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.probes import ResultPart
from repro.probes.shared.options import needs_one, needs_real_time

ALPHA, BETA, GAMMA = 1e-4, 1e-9, 1e-10
# recurrence: the fast path for a ring that has the links to itself
RINGS: dict[str, Callable[[Fabric, torch.Tensor], Any]] = {
    "events": dense.ring_allreduce,
    "recurrence": lambda fabric, vector: fabric.allreduce(vector),
}


class Options(Model):
    ranks: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1)]
    elements: Count
    turns: Count  # the fastest counts, which other load disturbs least


class SimulatorSpeed(ResultPart):
    """An algorithm's messages per CPU second, and the virtual seconds of the allreduce."""

    ranks: int
    algorithm: str
    messages_per_s: float
    virtual_s: float
    closed_form_s: float


class Result(ResultPart):
    rows: list[SimulatorSpeed]


def check(config: RunConfig) -> None:
    needs_one(config, "times one process")
    needs_real_time(config)  # it times the simulator itself


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    probes.start(fabric, len(probe.ranks))
    rows: list[dict[str, Any]] = []
    for done, ranks in enumerate(probe.ranks, 1):
        cpu_s, virtual_s = dict.fromkeys(RINGS, float("inf")), dict.fromkeys(RINGS, 0.0)
        for _ in range(probe.turns):
            for name, ring in RINGS.items():
                start = time.process_time()
                virtual_s[name] = simulate(ranks, probe.elements, ring)
                cpu_s[name] = min(cpu_s[name], time.process_time() - start)
        form = collective_forms.ring(ranks, collective_forms.FLOAT32 * probe.elements, ALPHA, BETA, GAMMA)
        rows += [
            {
                "ranks": ranks,
                "algorithm": name,
                "messages_per_s": 2 * (ranks - 1) * ranks / cpu_s[name],
                "virtual_s": virtual_s[name],
                "closed_form_s": form,
            }
            for name in RINGS
        ]
        probes.progress(fabric, done)
    metrics = {f"messages_per_s/{row['algorithm']}/{row['ranks']}": row["messages_per_s"] for row in rows}
    fastest = ", ".join(f"{row['ranks']} ranks, {row['algorithm']}: {row['messages_per_s']:,.0f}" for row in rows)
    return probes.Finding({"rows": rows}, metrics, f"messages a CPU second: {fastest}")


def simulate(ranks: int, elements: int, ring: Callable[[Fabric, torch.Tensor], Any]) -> float:
    """Virtual seconds until every rank has the sum."""

    def main(fabric: virtual.VirtualFabric) -> float:
        ring(fabric, torch.empty(elements, device="meta"))
        return fabric.now()

    costs = Costs(True, {"reduce": GAMMA}, {"sync": 0.0})
    return max(virtual.run(ranks, main, virtual.Network(ALPHA, BETA), costs))
