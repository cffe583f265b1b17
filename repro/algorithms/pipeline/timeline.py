"""The timeline of a plan: a simulation that finds deadlocks and the time of each pass, drawn like Figures 3 and 8.

A forward pass needs the forward pass of the stage before, a backward pass the backward pass of the stage behind. Both
need their version of the weights, and so the backward passes of all replicas in the updates before it. Sends do not
block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, Op, Plan
from repro.core.errors import InputError

LONGEST = 4096  # most minibatches that a check simulates: after its start every plan is periodic


class Pass(NamedTuple):
    """A pass with its time."""

    rank: int
    stage: int
    kind: str
    minibatch: int
    start: float
    end: float


def simulate_plan(
    plan: Plan,
    seconds: Callable[[int, str], float] = lambda stage, kind: 1.0,
    message_s: Callable[[int], float] | None = None,
) -> list[Pass]:
    """Every pass with its time, in the order of their ends; InputError naming the blocked pass of a deadlock.

    seconds(stage, kind): of a pass. message_s(stage): of activations or gradients between a stage and the next.
    """
    layout, stages = plan.layout, len(plan.layout.stages)
    lists = [list(plan.ops(*layout.place(rank))) for rank in range(layout.ranks)]
    at, free = [0] * layout.ranks, [0.0] * layout.ranks
    ended: dict[tuple[int, str, int], float] = {}  # (stage, kind, minibatch) -> its end
    counted: dict[tuple[int, int], int] = {}  # (stage, update) -> number of its backward passes done
    latest: dict[tuple[int, int], float] = {}  # (stage, update) -> the end of the last of them
    message_s = message_s or (lambda stage: 0.0)

    def synchronised(stage: int, version: int) -> float | None:
        """The time at which a version is available; None: not yet."""
        if version == 0:
            return 0.0
        if counted.get((stage, version - 1), 0) < plan.summands(stage, version - 1):
            return None
        return latest[stage, version - 1]

    def ready(rank: int, op: Op) -> float | None:
        stage, replica = layout.place(rank)
        minibatch = plan.minibatch(stage, replica, op.k)
        forward = op.kind == FORWARD
        neighbour = stage - 1 if forward else stage + 1
        version = plan.version(stage, op.k, replica) if forward else plan.update_of(stage, op.k)
        weights = synchronised(stage, version)
        if weights is None or not 0 <= neighbour < stages:
            return weights
        if (sent := ended.get((neighbour, op.kind, minibatch))) is None:
            return None
        return max(weights, sent + message_s(min(stage, neighbour)))

    passes: list[Pass] = []
    waiting = set(range(layout.ranks))
    while waiting:
        moved = False
        for rank in sorted(waiting):
            stage, replica = layout.place(rank)
            while at[rank] < len(lists[rank]):
                op = lists[rank][at[rank]]
                if (when := ready(rank, op)) is None:
                    break
                start = max(free[rank], when)
                free[rank] = end = start + seconds(stage, op.kind)
                minibatch = plan.minibatch(stage, replica, op.k)
                ended[stage, op.kind, minibatch] = end
                if op.kind == BACKWARD:
                    key = stage, plan.update_of(stage, op.k)
                    counted[key] = counted.get(key, 0) + 1
                    latest[key] = max(latest.get(key, 0.0), end)
                passes.append(Pass(rank, stage, op.kind, minibatch, start, end))
                at[rank] += 1
                moved = True
            if at[rank] == len(lists[rank]):
                waiting.discard(rank)
        if waiting and not moved:
            rank = min(waiting)
            raise InputError(_deadlock(plan, rank, lists[rank][at[rank]]))
    return sorted(passes, key=lambda each: (each.end, each.rank))


def check_deadlock(plan: Plan) -> None:
    """InputError if the plan deadlocks; simulates as many minibatches as a deadlock needs to appear."""
    layout = plan.layout
    enough = 4 * (layout.ranks + plan.aligned)
    tail = plan.minibatches % plan.aligned
    tried = min(plan.minibatches, min(enough, LONGEST) // plan.aligned * plan.aligned + tail or plan.minibatches)
    simulate_plan(replace(plan, minibatches=tried))


def _deadlock(plan: Plan, rank: int, op: Op) -> str:
    stage, replica = plan.layout.place(rank)
    name = "forward" if op.kind == FORWARD else "backward"
    return (
        f"the schedule {plan.schedule} of {plan.layout.config} deadlocks: rank {rank} (stage {stage}) waits for "
        f"ever to do the {name} pass of minibatch {plan.minibatch(stage, replica, op.k)}; give it more minibatches in "
        "flight"
    )


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
