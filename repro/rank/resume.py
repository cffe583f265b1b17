"""Where a run goes on: the newest checkpoint that every rank finds whole, and whose iterations rank 0's log has."""

from __future__ import annotations

from typing import Any

from repro.core.not_none import not_none
from repro.core.processes import say
from repro.rank.checkpointer import Checkpointer
from repro.rank.checkpoints import Damaged, common
from repro.records.events import cut_back, read_events
from repro.training.stops import TrainingPlan


def resume(checkpointer: Checkpointer, plan: TrainingPlan) -> int | None:
    """Take up that checkpoint, on every rank: its iteration, or None where the run starts from the beginning.

    What is passed over costs the user a line, and is deleted: the run makes it again.
    """
    worker, strategy, checkpoints = checkpointer.worker, checkpointer.strategy, checkpointer.checkpoints
    fabric, events, log = worker.fabric, [], checkpointer.events
    if log:
        if wrong := cut_back(log.path):
            say("note", line=f"{wrong}; the log is cut off before it")
        events = read_events(log.path)
    offers = fabric.exchange(checkpoints.available())
    earlier = any(offers)
    while (iteration := common(offers)) is not None:
        state, wrong = None, None
        try:
            state = checkpoints.load(iteration)
        except Damaged as error:
            wrong = str(error)
        if log and wrong is None:
            steps = strategy.steps(iteration * worker.workers)
            lacking = gap(events, plan, iteration, steps, not_none(state).get("since"))
            wrong = lacking and f"{log.path} {lacking}"
        problems = [line for line in fabric.exchange(wrong) if line]
        if not problems:
            checkpoints.discard(after=iteration)
            checkpointer.restore(iteration, not_none(state))
            return iteration
        if fabric.rank == 0:
            for line in problems:
                say("note", line=f"{line}; passing over the checkpoint of iteration {iteration}")
        offers = fabric.exchange([older for older in checkpoints.available() if older < iteration])
    checkpoints.discard(after=0)
    if earlier and fabric.rank == 0:
        say("note", line="no checkpoint is left to go on from: starting from the beginning")
    return None


def gap(
    events: list[dict[str, Any]], plan: TrainingPlan, iteration: int, steps: int, since: dict[str, Any] | None = None
) -> str | None:
    """What a log lacks of the time up to an iteration, for people; None where it has all.

    steps: that rank 0 has taken until then. since: what its checkpoint holds of those behind the last stop, if the log
    has not the stop at the iteration itself (`Checkpointer.save_alone`).
    """
    stops = [event for event in events if event["event"] == "steps" and event["iteration"] <= iteration]
    carried = since if all(event["iteration"] < iteration for event in stops) else None
    logged = sum(event["n"] for event in stops) + (len(carried["step_s"]) if carried else 0)
    if logged != steps:
        return f"has {logged} of the {steps} steps up to iteration {iteration}"
    evaluated = {event["iteration"] for event in events if event["event"] == "evaluation"}
    for at in range(iteration if carried else iteration + 1):
        if plan.at(at).evaluate and at not in evaluated:
            return f"has no evaluation of iteration {at}"
    return None
