"""Speed of the virtual fabric: wall time of a 72-rank ring allreduce without arithmetic, and messages a second."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from repro.bench.collective import ALPHA, BETA, GAMMA
from repro.fabric import collectives, virtual
from repro.timing import closed_forms
from repro.timing.costs import Costs

RANKS = 72
ELEMENTS = 143_667_240  # VGG-19
TURNS = 5


def measure(ranks: int = RANKS, elements: int = ELEMENTS, turns: int = TURNS) -> dict[str, Any]:
    """{ranks, bytes, messages, wall_s (median and all), messages_per_s, virtual_s, closed_form_s}."""
    costs = Costs(True, {"reduce": GAMMA}, {"sync": 0.0})

    def ring(fabric: virtual.VirtualFabric) -> float:
        collectives.ring_allreduce(fabric, torch.empty(elements, device="meta"))
        return fabric.now()

    walls = []
    for _ in range(turns):
        began = time.perf_counter()
        ended = virtual.run(ranks, ring, virtual.Network(ALPHA, BETA), costs)
        walls.append(time.perf_counter() - began)
    messages, wall = 2 * (ranks - 1) * ranks, statistics.median(walls)
    return {
        "ranks": ranks,
        "bytes": 4 * elements,
        "messages": messages,
        "wall_s": {"median": wall, "all": walls},
        "messages_per_s": messages / wall,
        "virtual_s": max(ended),
        "closed_form_s": closed_forms.ring(ranks, 4 * elements, ALPHA, BETA, GAMMA),
    }


def table(result: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"virtual fabric: a ring allreduce of {result['ranks']} ranks, {result['bytes'] / 1e6:g} MB (meta)",
            f"  wall time        {result['wall_s']['median']:10.3f} s",
            f"  messages         {result['messages_per_s']:10.0f} a second ({result['messages']} in all)",
            f"  simulated        {result['virtual_s']:10.6f} s, closed form {result['closed_form_s']:.6f} s",
        ]
    )
