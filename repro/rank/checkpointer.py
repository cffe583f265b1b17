"""Saves and restores the training state of one rank; resumes a run from the newest checkpoint that every rank can
verify."""

from __future__ import annotations

from typing import Any

from repro.core.errors import InputError, ReproError
from repro.core.not_none import not_none
from repro.core.processes import print_event
from repro.rank.checkpoints import KEPT, KEPT_ALONE, Checkpoints, Damaged, last_common
from repro.rank.divergence import divergence_error, find_nonfinite
from repro.rank.step_log import StepLog, stack_losses
from repro.records.events import cut_back, read_events
from repro.training.stops import TrainingPlan


class Checkpointer:
    """One per rank. The training clock is paused while a method runs."""

    def __init__(self, log: StepLog, checkpoints: Checkpoints):
        self.log, self.checkpoints = log, checkpoints
        self.worker, self.strategy, self.events = log.worker, log.strategy, log.events

    def save(self, iteration: int) -> None:
        """Save the state of every rank; old checkpoints are deleted when all ranks have written the new one."""
        with self.worker.clock.activity("checkpoint"):
            self._write(iteration, {})
            self.worker.fabric.exchange(None)
            self.checkpoints.prune(KEPT)
        self._note("checkpoint", iteration)

    def save_alone(self, iteration: int) -> None:
        """Save the state of this rank without waiting for the others.

        It is called before the stop of the same iteration, so the steps since the last stop are saved too. Diverged if
        this rank has values that are not finite.
        """
        with self.worker.clock.activity("checkpoint"):
            if nonfinite := find_nonfinite(
                self.worker, self.strategy, iteration, stack_losses(self.log.losses).tolist()
            ):
                raise divergence_error([nonfinite], iteration)
            self._write(iteration, {"since": self.log.unfinished()})
            self.checkpoints.prune(KEPT_ALONE)
        self._note("checkpoint", iteration)

    def _write(self, iteration: int, more: dict[str, Any]) -> None:
        # A checkpoint is valid only with the log up to its iteration, so rank 0 brings the log to the disk first. Other
        # ranks need not wait: their checkpoints are unused without rank 0's.
        if self.events:
            self.events.sync()
        worker, strategy = self.worker, self.strategy.state_dict()  # this may still update the model shard
        state = {
            "part": worker.model_shard.state_dict(),
            "strategy": strategy,
            "clock": worker.clock.state_dict(),
            "bytes_sent": worker.fabric.bytes_sent,
            "fabric": worker.fabric.state_dict(),
            "staleness": dict(self.log.staleness),
        }
        self.checkpoints.save(iteration, state | more)

    def restore(self, iteration: int, state: dict[str, Any]) -> None:
        """Restore the state that was saved at an iteration."""
        worker = self.worker
        worker.model_shard.load_state_dict(state["part"])
        self.strategy.load_state_dict(state["strategy"])
        worker.clock.load_state_dict(state["clock"])
        worker.fabric.bytes_sent = state["bytes_sent"]
        worker.fabric.load_state_dict(state["fabric"])
        since = state.get("since")
        if since and worker.fabric.exchange(self._logged(iteration))[0]:
            since = None
        self.log.restore(iteration, state["staleness"], since)
        self._note("resume", iteration)

    def _logged(self, iteration: int) -> bool:
        """Whether the log, which rank 0 writes, contains the stop at an iteration."""
        events = read_events(self.events.path) if self.events else []
        return any(event["event"] == "steps" and event["iteration"] == iteration for event in events)

    def _note(self, event: str, iteration: int) -> None:
        if self.events:
            self.events.append(event, iteration=iteration)
            self.events.flush()


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
