"""The speed of the virtual fabric: messages a CPU second of a ring allreduce of VGG-19's gradient."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from repro.algorithms.timing import collective_forms
from repro.fabric.base import Fabric
from repro.fabric.collectives import dense
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual

ALPHA, BETA, GAMMA = 1e-4, 1e-9, 1e-10
# recurrence: the fast path for a ring that has the links to itself
RINGS: dict[str, Callable[[Fabric, torch.Tensor], Any]] = {
    "events": dense.ring_allreduce,
    "recurrence": lambda fabric, vector: fabric.allreduce(vector),
}
SIZES = {"quick": ([3, 72], 300, 1), "full": ([16, 72, 256], 143_667_240, 5)}  # ranks, elements, turns
RATE = "messages_per_s"
GOALS = [
    {"what": "messages a CPU second, 72 ranks", "where": {"ranks": 72, "algorithm": "events"}, "number": RATE,
     "at_least": 40000},
    {"what": "messages a CPU second by the recurrence, 72 ranks", "where": {"ranks": 72, "algorithm": "recurrence"},
     "number": RATE, "at_least": 100000},
]  # fmt: skip


def measure_rows(scale: str) -> list[dict[str, Any]]:
    """A row for each algorithm and number of ranks; the fastest turn counts, which other load disturbs least."""
    numbers, elements, turns = SIZES[scale]
    rows = []
    for ranks in numbers:
        cpu_s, virtual_s = dict.fromkeys(RINGS, float("inf")), dict.fromkeys(RINGS, 0.0)
        for _ in range(turns):
            for name, ring in RINGS.items():
                start = time.process_time()
                virtual_s[name] = simulate_ring(ranks, elements, ring)
                cpu_s[name] = min(cpu_s[name], time.process_time() - start)
        form = collective_forms.ring_seconds(ranks, collective_forms.FLOAT32 * elements, ALPHA, BETA, GAMMA)
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
    return rows


def simulate_ring(ranks: int, elements: int, ring: Callable[[Fabric, torch.Tensor], Any]) -> float:
    """Virtual seconds until every rank has the sum."""

    def main(fabric: virtual.VirtualFabric) -> float:
        ring(fabric, torch.empty(elements, device="meta"))
        return fabric.now()

    costs = Costs(True, {"reduce": GAMMA}, {"sync": 0.0})
    return max(virtual.run(ranks, main, virtual.Network(ALPHA, BETA), costs))
