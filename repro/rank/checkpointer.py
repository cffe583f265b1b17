"""Saves and restores the training state of one rank."""

from __future__ import annotations

from typing import Any

from repro.rank.checkpoints import KEPT, KEPT_ALONE, Checkpoints
from repro.rank.divergence import divergence_error, find_nonfinite
from repro.rank.step_log import StepLog, stack_losses
from repro.records.events import read_events


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
