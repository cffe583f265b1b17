"""What a rank saves for a later resume, and how it is restored."""

from __future__ import annotations

from typing import Any

from repro.rank.checkpoints import KEPT, KEPT_ALONE, Checkpoints
from repro.rank.divergence import diverged, find
from repro.rank.step_log import StepLog, stacked
from repro.records.events import read_events


class Checkpointer:
    """One per rank, with the training clock paused."""

    def __init__(self, log: StepLog, checkpoints: Checkpoints):
        self.log, self.checkpoints = log, checkpoints
        self.worker, self.strategy, self.events = log.worker, log.strategy, log.events

    def save(self, iteration: int) -> None:
        """Every rank saves all that it needs to resume; old checkpoints are deleted when all ranks have the new one."""
        with self.worker.clock.activity("checkpoint"):
            self._write(iteration, {})
            self.worker.fabric.exchange(None)
            self.checkpoints.prune(KEPT)
        self._note("checkpoint", iteration)

    def save_alone(self, iteration: int) -> None:
        """This rank saves all that it needs to resume, without waiting for the others.

        It comes before the stop of the same iteration, so the steps since the last stop are saved with it. A rank that
        has diverged ends the run by itself.
        """
        with self.worker.clock.activity("checkpoint"):
            if broken := find(self.worker, self.strategy, iteration, stacked(self.log.losses).tolist()):
                raise diverged([broken], iteration)
            self._write(iteration, {"since": self.log.unfinished()})
            self.checkpoints.prune(KEPT_ALONE)
        self._note("checkpoint", iteration)

    def _write(self, iteration: int, more: dict[str, Any]) -> None:
        # All that a checkpoint stands on is in the log on the disk before it. Others than rank 0 need not wait for
        # that: their checkpoints count for nothing without rank 0's.
        if self.events:
            self.events.sync()
        worker, strategy = self.worker, self.strategy.state_dict()  # which may still update the part
        state = {
            "part": worker.model_shard.state_dict(),
            "strategy": strategy,
            "clock": worker.clock.state_dict(),
            "bytes_sent": worker.fabric.bytes_sent,
            "staleness": dict(self.log.staleness),
        }
        self.checkpoints.save(iteration, state | more)

    def restore(self, iteration: int, state: dict[str, Any]) -> None:
        """Restore what was saved at an iteration."""
        worker = self.worker
        worker.model_shard.load_state_dict(state["part"])
        self.strategy.load_state_dict(state["strategy"])
        worker.clock.load_state_dict(state["clock"])
        worker.fabric.bytes_sent = state["bytes_sent"]
        since = state.get("since")
        if since and worker.fabric.exchange(self._logged(iteration))[0]:
            since = None
        self.log.restore(iteration, state["staleness"], since)
        self._note("resume", iteration)

    def _logged(self, iteration: int) -> bool:
        """Whether rank 0's log has the stop at an iteration."""
        events = read_events(self.events.path) if self.events else []
        return any(event["event"] == "steps" and event["iteration"] == iteration for event in events)

    def _note(self, event: str, iteration: int) -> None:
        if self.events:
            self.events.append(event, iteration=iteration)
            self.events.flush()
