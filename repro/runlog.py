"""What a run leaves behind: each rank's times gathered at every stop, evaluations, checkpoints; events by rank 0."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from repro.checkpoints import Checkpoints
from repro.data.base import Dataset
from repro.errors import FaultError
from repro.evaluate import digest, evaluate
from repro.events import EventLog
from repro.worker import Worker
from strategies.base import StepReport, Strategy

SIGN_OF_LIFE_S = 5.0  # the parent ends ranks of which it hears nothing for long


class RunLog:
    """One per rank; only rank 0 has an event log. Everything but `step` runs with the training clock paused."""

    def __init__(
        self,
        worker: Worker,
        strategy: Strategy,
        model_for_evaluation: torch.nn.Module,
        dataset: Dataset,
        checkpoints: Checkpoints,
        events: EventLog | None,
        trace_steps: int,
    ):
        self.worker, self.strategy, self.model, self.dataset = worker, strategy, model_for_evaluation, dataset
        self.checkpoints, self.events, self.trace_steps = checkpoints, events, trace_steps
        self.losses: list[torch.Tensor] = []
        self.step_s: list[float] = []
        self.bytes_before, self.train_before = worker.fabric.bytes_sent, 0.0
        self.final_digest = ""
        self.said = time.perf_counter()
        self.iteration, self.train_s, self.loss = 0, 0.0, None

    # --- during training
    def step(self, step: Callable[[], StepReport]) -> None:
        """One step, timed on this rank's training clock."""
        began = self.worker.clock.train_s()
        report = step()
        self.step_s.append(self.worker.clock.train_s() - began)
        if report.loss is not None:
            self.losses.append(report.loss)
        if self.events and time.perf_counter() - self.said > SIGN_OF_LIFE_S:
            self.said = time.perf_counter()
            say("step", iteration=self.iteration + len(self.step_s))

    # --- with the clock paused
    def stop(self, iteration: int) -> None:
        """Gather what every rank did since the last stop."""
        fabric, clock = self.worker.fabric, self.worker.clock
        phases = clock.take()
        typical = statistics.median(self.step_s) if self.step_s else 0.0
        mine = {
            "iteration": iteration,
            "server": self.worker.is_server,
            "train_s": clock.train_s(),
            "since_s": clock.train_s() - self.train_before,
            "phases": phases,
            "bytes": fabric.bytes_sent - self.bytes_before,
            "loss": torch.stack(self.losses).double().mean().item() if self.losses else None,
            "trace": clock.middle(self.trace_steps * typical) if self.trace_steps else [],
        }
        self.bytes_before, self.train_before = fabric.bytes_sent, clock.train_s()
        with clock.activity("synchronisation"):
            self.ranks = fabric.exchange(mine)
        if len(found := {rank["iteration"] for rank in self.ranks}) > 1:
            raise FaultError(f"ranks have stopped at different iterations: {sorted(found)}")
        self.iteration, self.train_s = iteration, max(rank["train_s"] for rank in self.ranks)
        if self.events:
            self._write_steps()
        self.losses.clear()
        self.step_s.clear()

    def _write_steps(self) -> None:
        losses = [rank["loss"] for rank in self.ranks if rank["loss"] is not None]
        self.loss = statistics.fmean(losses) if losses else None
        self.events.append(
            "steps",
            iteration=self.iteration,
            n=len(self.step_s),
            train_s=self.train_s,
            loss=self.loss,
            step_s=sorted(self.step_s),
            workers=_sums([rank for rank in self.ranks if not rank["server"]]),
            servers=_sums([rank for rank in self.ranks if rank["server"]]),
            bytes_sent=sum(rank["bytes"] for rank in self.ranks) / len(self.ranks),
        )
        trace = [
            {"rank": rank, **interval._asdict()} for rank, said in enumerate(self.ranks) for interval in said["trace"]
        ]
        if trace:
            self.events.append("trace", iteration=self.iteration, intervals=trace)

    def evaluate(self, iteration: int) -> None:
        """Test the snapshot on rank 0; the weights that it lacks come from the ranks that hold them."""
        with self.worker.clock.activity("evaluation"):
            scores = {}
            if self.worker.arithmetic:
                weights = self._whole_model(self.strategy.eval_weights())
                if self.events:
                    scores = evaluate(self.model, weights, self.dataset.test, self.worker.part.device)
                    self.final_digest = digest(weights)
            if not self.events:
                return
        epoch = iteration / self.worker.iterations_per_epoch
        self.events.append(
            "evaluation",
            iteration=iteration,
            epoch=epoch,
            train_s=self.train_s,
            wall_s=sum(self.worker.clock.wall.values()),
            loss=self.loss,
            **scores,
        )
        self.events.flush()
        say("progress", iteration=iteration, epoch=epoch, train_s=self.train_s, **scores)

    def _whole_model(self, mine: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        held = self.worker.fabric.exchange(sorted(mine))
        have = set(held[0])
        wanted: dict[int, list[str]] = {}  # rank -> the names that it ships: the lowest rank that holds each
        for rank, names in enumerate(held):
            wanted[rank] = [name for name in names if name not in have]
            have.update(names)
        if not any(wanted.values()):
            return mine
        shipped = self.worker.fabric.exchange({name: mine[name].cpu() for name in wanted[self.worker.rank]})
        return {name: tensor for part in [*reversed(shipped), mine] for name, tensor in part.items()}

    def checkpoint(self, iteration: int) -> None:
        """Every rank saves all that it needs to go on; the old ones go when all have the new."""
        worker = self.worker
        if self.events:  # first, so that the log has all that the checkpoint stands on
            self.events.flush()
        with worker.clock.activity("checkpoint"):
            self.checkpoints.save(
                iteration,
                {
                    "part": worker.part.state_dict(),
                    "strategy": self.strategy.state_dict(),
                    "clock": worker.clock.state_dict(),
                    "bytes_sent": worker.fabric.bytes_sent,
                },
            )
            worker.fabric.exchange(None)
            self.checkpoints.prune()
        if self.events:
            self.events.append("checkpoint", iteration=iteration)
            self.events.flush()

    def restore(self, iteration: int) -> None:
        """Take up a checkpoint of `checkpoint`."""
        state = self.checkpoints.load(iteration)
        self.worker.part.load_state_dict(state["part"])
        self.strategy.load_state_dict(state["strategy"])
        self.worker.clock.load_state_dict(state["clock"])
        self.worker.fabric.bytes_sent = self.bytes_before = state["bytes_sent"]
        self.train_before = self.worker.clock.train_s()
        self.iteration = iteration
        if self.events:
            self.events.append("resume", iteration=iteration)
            self.events.flush()

    def resume_together(self) -> None:
        """Nobody's training clock runs while another is still at its evaluation."""
        if self.events:
            self.events.flush()
        with self.worker.clock.activity("synchronisation"):
            self.worker.fabric.exchange(None)


def _sums(ranks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Means over ranks of what they did since the last stop: phase seconds (with "other"), overlapped seconds."""
    if not ranks:
        return None
    phases = {name: statistics.fmean(rank["phases"][name] for rank in ranks) for name in ranks[0]["phases"]}
    overlapped = phases.pop("overlapped")
    since = statistics.fmean(rank["since_s"] for rank in ranks)
    phases["other"] += max(0.0, since - sum(phases.values()))
    return {"phases": phases, "overlapped": overlapped}


def say(event: str, **fields: Any) -> None:
    """One line for the parent process, which draws the progress."""
    print("@" + json.dumps({"event": event, **fields}), file=sys.stdout, flush=True)
