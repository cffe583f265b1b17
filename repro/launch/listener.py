"""The command's handler of rank 0's messages: it shows progress, updates MLflow and notices preemption."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

from repro.answers.mlflow.best_effort import BestEffort
from repro.core.errors import PREEMPTED, Diverged, FaultError
from repro.experiment.run import Run
from repro.launch.progress import Progress
from repro.records.busy import marked_kind
from repro.records.record import Record, TrainResult
from repro.training.evaluation.metrics import METRICS

# srun's message about a rank that received the signal before its handler was installed
ENDED_EARLY = re.compile(r"srun: error: [^\n]*: tasks? [^\n]*: Terminated")


class Preempted(FaultError):
    """The run was preempted; the same command resumes it from its checkpoint."""

    status = PREEMPTED


def as_preemption(error: FaultError, signalled: bool, lines: Iterable[str]) -> FaultError:
    """The error as it is; if it followed the preemption signal, a preemption without a new checkpoint."""
    if isinstance(error, Preempted | Diverged) or not (signalled or any(map(ENDED_EARLY.search, lines))):
        return error
    return Preempted(f"preempted, and ended before a checkpoint: {error}")


SYNC_EVERY_S = 10.0  # least seconds between live updates of MLflow, which shares the cores with the ranks


class Listener:
    """Called with each message of rank 0."""

    def __init__(self, run: Run, progress: Progress, mirrors: BestEffort | None):
        self.run, self.progress, self.mirrors = run, progress, mirrors
        self.synced = time.monotonic()
        self.signalled = False  # whether rank 0 has received the preemption signal
        self.left_at: int | None = None  # the iteration of the checkpoint at which all ranks ended

    def __call__(self, message: dict[str, Any]) -> None:
        if message["event"] == "start":
            label = METRICS[self.run.config.metric].label
            self.progress.begin(self.run.title, message["iterations"], label, message["resumed"])
            if message["resumed"]:
                self.progress.note(f"resuming {self.run.label} at iteration {message['resumed']}")
        elif message["event"] == "note":
            self.progress.note(f"{self.run.label}: {message['line']}")
        else:
            if message["event"] == "signalled":
                self.signalled = True
                self.progress.note(f"{self.run.label}: preempted at iteration {message['iteration']}")
            if message["event"] == "preempted":
                self.left_at = message["iteration"]
            self.progress.update(self.run.title, message["iteration"], message.get(self.run.config.metric))
        due = time.monotonic() - self.synced > SYNC_EVERY_S
        if self.mirrors and due and message["event"] == "progress":
            self.mirrors.live(self.run.folder)
            self.synced = time.monotonic()

    def last_line(self, record: Record) -> str:
        result, kind = record.result, marked_kind(record.kind, record.cpu_taken_share)
        if not isinstance(result, TrainResult):
            return f"{self.run.title}: {result.line} ({kind})"
        metric, step_ms = record.identity.metric, 1e3 * result.step.mean_s
        score = result.final[metric]
        shown = "" if score is None else f"{metric} {score:.4f}, "
        times = f"{result.final['train_s']:.1f} s of training, {step_ms:.2f} ms a step"
        return f"{self.run.title}: {shown}{times} ({kind})"
