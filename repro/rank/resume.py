"""Resumes a run from the newest checkpoint that every rank can verify and whose iterations the event log contains."""

from __future__ import annotations

from typing import Any

from repro.core.errors import InputError, ReproError
from repro.core.not_none import not_none
from repro.core.processes import print_event
from repro.rank.checkpointer import Checkpointer
from repro.rank.checkpoints import Damaged, last_common
from repro.records.events import cut_back, read_events
from repro.training.stops import TrainingPlan


def resume_run(checkpointer: Checkpointer, plan: TrainingPlan) -> int | None:
    """Restore that checkpoint on every rank; returns its iteration, or None if the run starts from the beginning.

    Newer checkpoints are reported to the user and deleted: the run writes them again.
    """
    worker, strategy, checkpoints = checkpointer.worker, checkpointer.strategy, checkpointer.checkpoints
    fabric, events, log = worker.fabric, [], checkpointer.events
    if log:
        if damage := cut_back(log.path):
            print_event("note", line=f"{damage}; the log is truncated before it")
        events = read_events(log.path)
    available = fabric.exchange(checkpoints.available())
    earlier = any(available)
    while (iteration := last_common(available)) is not None:
        state, problem = None, None
        try:
            state = checkpoints.load(iteration)
        except Damaged as error:
            problem = str(error)
        if log and problem is None:
            steps = strategy.steps(iteration * worker.workers)
            missing = log_gap(events, plan, iteration, steps, not_none(state).get("since"))
            problem = missing and f"{log.path} {missing}"
        problems = [line for line in fabric.exchange(problem) if line]
        if not problems:
            checkpoints.discard(after=iteration)
            restore_checkpoint(checkpointer, iteration, not_none(state))
            return iteration
        if fabric.rank == 0:
            for line in problems:
                print_event("note", line=f"{line}; skipping the checkpoint of iteration {iteration}")
        available = fabric.exchange([older for older in checkpoints.available() if older < iteration])
    checkpoints.discard(after=0)
    if earlier and fabric.rank == 0:
        print_event("note", line="no usable checkpoint is left: starting from the beginning")
    return None


def restore_checkpoint(checkpointer: Checkpointer, iteration: int, state: dict[str, Any]) -> None:
    """Restore a verified checkpoint; InputError if it does not fit, as after a change of the code."""
    try:
        checkpointer.restore(iteration, state)
    except ReproError:
        raise
    except Exception as error:
        raise InputError(
            f"the checkpoint of iteration {iteration} does not fit this code ({error!r:.200}); continue it with the "
            "commit that computed it, or start anew: --force"
        ) from error


def log_gap(
    events: list[dict[str, Any]], plan: TrainingPlan, iteration: int, steps: int, since: dict[str, Any] | None = None
) -> str | None:
    """What the log lacks up to an iteration, for a message; None if it is complete.

    steps: the steps of rank 0 until then. since: those after the last stop that its checkpoint contains, if the log
    lacks the stop at the iteration itself (`Checkpointer.save_alone`).
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
