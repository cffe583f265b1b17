"""Simulates a plan: checks that it does not deadlock, and computes the time of each pass.

A forward pass needs the one of the stage before, a backward pass the one of the stage behind. Both need the version of
the weights that they use, and so the synchronisation of the replicas' updates before it, for which each replica must
have done its backward passes. Messages are sent without waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, Op, Plan
from repro.core.errors import InputError

LONGEST = 4096  # minibatches that a check simulates: after its start every plan is periodic


class Pass(NamedTuple):
    """A pass with its time."""

    rank: int
    stage: int
    kind: str
    minibatch: int
    start: float
    end: float


def run(
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
        version = plan.version(stage, op.k, replica) if forward else plan.applied(stage, op.k)
        there = synchronised(stage, version)
        if there is None or not 0 <= neighbour < stages:
            return there
        if (came := ended.get((neighbour, op.kind, minibatch))) is None:
            return None
        return max(there, came + message_s(min(stage, neighbour)))

    found: list[Pass] = []
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
                found.append(Pass(rank, stage, op.kind, minibatch, start, end))
                at[rank] += 1
                moved = True
            if at[rank] == len(lists[rank]):
                waiting.discard(rank)
        if waiting and not moved:
            raise InputError(_stuck(plan, lists, at, min(waiting)))
    return sorted(found, key=lambda one: (one.end, one.rank))


def check(plan: Plan) -> None:
    """InputError if the plan deadlocks; simulated on as many minibatches as are needed to see it."""
    layout = plan.layout
    enough = 4 * (layout.ranks + plan.aligned)
    tail = plan.minibatches % plan.aligned
    tried = min(plan.minibatches, min(enough, LONGEST) // plan.aligned * plan.aligned + tail or plan.minibatches)
    run(replace(plan, minibatches=tried))


def _stuck(plan: Plan, lists: list[list[Op]], at: list[int], rank: int) -> str:
    stage, replica = plan.layout.place(rank)
    op = lists[rank][at[rank]]
    name = "forward" if op.kind == FORWARD else "backward"
    return (
        f"the schedule {plan.schedule} of {plan.layout.config} deadlocks: rank {rank} (stage {stage}) waits for "
        f"ever to do the {name} pass of minibatch {plan.minibatch(stage, replica, op.k)}; give it more minibatches in "
        "flight"
    )
