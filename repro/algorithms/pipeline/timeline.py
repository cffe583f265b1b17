"""Draws a schedule as text, like the paper's Figures 3 and 8: a line for each machine, a column for each time unit."""

from __future__ import annotations

from collections.abc import Sequence

from repro.algorithms.pipeline.deadlock import Pass, simulate_plan
from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, Plan

IDLE = "."


def draw_plan(plan: Plan, forward: int = 1, backward: int = 1) -> str:
    """Draw a plan whose forward and backward passes take so many time units."""
    return draw_passes(plan, timeline_passes(plan, forward, backward))


def timeline_passes(plan: Plan, forward: int = 1, backward: int = 1) -> list[Pass]:
    """Every pass with its time in units; InputError if the plan deadlocks.

    forward, backward: units of a stage's passes, also of a replicated stage's.
    """
    return simulate_plan(plan, lambda stage, kind: forward if kind == FORWARD else backward)


def draw_passes(plan: Plan, passes: Sequence[Pass]) -> str:
    """Draw passes. Minibatches count from 1, as in the paper; a star marks a backward pass, a dot an idle unit."""
    units = int(max(each.end for each in passes))
    width = len(str(plan.minibatches)) + 1
    rows = [[IDLE] * units for _ in range(plan.layout.ranks)]
    for each in passes:
        for unit in range(int(each.start), int(each.end)):
            rows[each.rank][unit] = f"{each.minibatch + 1}{'*' * (each.kind == BACKWARD)}"
    lines = []
    for rank, row in enumerate(rows):
        stage, replica = plan.layout.place(rank)
        name = f"stage {stage + 1}" + (f".{replica + 1}" if plan.replicas(stage) > 1 else "")
        lines.append(f"{name:<10}" + " ".join(cell.rjust(width) for cell in row))
    return "\n".join(line.rstrip() for line in lines)
