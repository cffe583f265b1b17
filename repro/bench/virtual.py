"""Speed of the virtual fabric: messages a CPU second of a ring allreduce without arithmetic, beside its goals."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any

import torch
from greenlet import getcurrent, greenlet

from repro.algorithms.timing import collective_forms
from repro.bench.collective import ALPHA, BETA, GAMMA
from repro.fabric.base import Fabric
from repro.fabric.collectives import dense as collectives
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual

RANKS = (16, 72, 256)
OF_GOALS = 72  # ranks
GOALS = {"events": 40_000, "recurrence": 100_000}  # messages a CPU second
ELEMENTS = 143_667_240  # VGG-19
TURNS = 5
# of a message on the heap: its head arrives, it is in, its sender is rid of it, and, as often, its receiver goes on
EVENTS, SWITCHES = 4, 1

Ring = Callable[[Fabric, torch.Tensor], Any]
RINGS: dict[str, Ring] = {
    "events": collectives.ring_allreduce,
    "recurrence": lambda fabric, vector: fabric.allreduce(vector),  # where the links are the ring's alone
}


def measure(sizes: tuple[int, ...] = RANKS, elements: int = ELEMENTS, turns: int = TURNS) -> dict[str, Any]:
    """{bytes, goals, rows: of each number of ranks {ranks, messages, floor, events, recurrence (messages a CPU second,
    the best of all turns), virtual_s {events, recurrence}, closed_form_s}}"""
    rows = []
    for ranks in sizes:
        messages = 2 * (ranks - 1) * ranks
        works: dict[str, Callable[[], Any]] = {"floor": partial(_floor, ranks, messages)}
        works |= {name: partial(_simulate, ranks, elements, ring) for name, ring in RINGS.items()}
        best, ended = dict.fromkeys(works, float("inf")), {}
        for _ in range(turns):
            for name, work in works.items():
                began = time.process_time()
                ended[name] = work()
                best[name] = min(best[name], time.process_time() - began)
        rows.append(
            {"ranks": ranks, "messages": messages}
            | {name: messages / seconds for name, seconds in best.items()}
            | {
                "virtual_s": {name: ended[name] for name in RINGS},
                "closed_form_s": collective_forms.ring(ranks, 4 * elements, ALPHA, BETA, GAMMA),
            }
        )
    return {"bytes": 4 * elements, "goals": {"ranks": OF_GOALS} | GOALS, "rows": rows}


def _simulate(ranks: int, elements: int, ring: Ring) -> float:
    def main(fabric: virtual.VirtualFabric) -> float:
        ring(fabric, torch.empty(elements, device="meta"))
        return fabric.now()

    costs = Costs(True, {"reduce": GAMMA}, {"sync": 0.0})
    return max(virtual.run(ranks, main, virtual.Network(ALPHA, BETA), costs))


def _floor(ranks: int, messages: int) -> None:
    """As many entries on a heap of as many greenlets, and as many switches, as that many messages need at least."""
    heap = [(0.0, rank, rank) for rank in range(ranks)]
    hub = getcurrent()

    def wait() -> None:
        while True:
            hub.switch()

    waiting = [greenlet(wait) for _ in range(ranks)]
    for event in range(EVENTS * messages):
        at, rank, _ = heappop(heap)
        heappush(heap, (at + ALPHA, rank, event))
        if event % EVENTS < SWITCHES:
            waiting[rank].switch()


def table(result: dict[str, Any]) -> str:
    goals = result["goals"]
    lines = [
        f"virtual fabric: a ring allreduce of {result['bytes'] / 1e6:g} MB (meta), messages a CPU second",
        f"  {'ranks':>6}{'messages':>10}{'heap and switches':>19}{'events':>11}{'recurrence':>12}"
        "   simulated (closed form)",
    ]
    for row in result["rows"]:
        lines.append(
            f"  {row['ranks']:6}{row['messages']:10}{row['floor']:19.0f}{row['events']:11.0f}{row['recurrence']:12.0f}"
            f"   {row['virtual_s']['events']:.6f} s ({row['closed_form_s']:.6f} s)"
        )
    lines.append(f"  goals at {goals['ranks']} ranks: events {goals['events']}, recurrence {goals['recurrence']}")
    return "\n".join(lines)
