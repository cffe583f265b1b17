"""Preemption: on SIGTERM all ranks write a checkpoint and exit, so that the job can be restarted elsewhere.

Slurm sends the signal to every rank, at slightly different times. All ranks must stop after the same iteration, and
undisturbed training must not become slower. So only a rank that has received the signal reads and writes files in the
run's folder, after each of its steps:

1. each writes its current iteration (`checkpoints/preempt.rank<r>`);
2. when all have, rank 0 chooses an iteration that no rank will pass before reading it, and writes it
   (`checkpoints/preempt.stop`);
3. each leaves the loop there: settle, checkpoint, event `preempted`, exit. The parent's exit status reports it.

A rank that has already passed that iteration ends all ranks with an error, and the run continues from the previous
checkpoint; a rank that waits for the others ends by its time limit. A signal that does not reach all ranks has no
effect. If training ends sooner, it ends normally.

The files are created before training and written in place, because over NFS a new file may stay invisible for long,
while an existing one is read afresh when it is opened.
"""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import time
from pathlib import Path
from typing import Any

from repro.core.errors import FaultError
from repro.core.processes import print_event
from repro.strategies.base import Strategy
from repro.training.stops import Stop
from repro.training.worker import Worker

MARGIN_S = 2.0  # time for the slowest rank to read the iteration; $REPRO_PREEMPT overrides it
MARGIN_ITERATIONS = 3
SIGNALLED = False  # whether this process has received the signal


def listen_for_preemption() -> None:
    """Handle SIGTERM as a preemption from now on, if the launcher sets $REPRO_PREEMPT (seconds of margin)."""
    if "REPRO_PREEMPT" in os.environ:
        signal.signal(signal.SIGTERM, _signalled)
        signal.siginterrupt(signal.SIGTERM, False)  # not all libraries retry an interrupted call


def _signalled(number: int, frame: Any) -> None:
    global SIGNALLED
    SIGNALLED = True


class Notice:
    """One rank's part in the agreement on the iteration to stop after."""

    def __init__(self, folder: Path, worker: Worker, strategy: Strategy):
        """Creates this rank's files; training may start when all ranks have done so."""
        self.worker, self.strategy = worker, strategy
        self.listening = "REPRO_PREEMPT" in os.environ and worker.blocks is None
        self.margin_s = float(os.environ.get("REPRO_PREEMPT") or MARGIN_S)
        self.folder = folder / "checkpoints"
        self.at: int | None = None  # the iteration to stop after
        self.since: float | None = None  # when this rank wrote its iteration
        if self.listening:
            self.folder.mkdir(exist_ok=True)
            self._mine.write_text("")
            if worker.rank == 0:
                self._stop.write_text("")

    @property
    def given(self) -> bool:
        return self.listening and SIGNALLED

    @property
    def _mine(self) -> Path:
        return self.folder / f"preempt.rank{self.worker.rank}"

    @property
    def _stop(self) -> Path:
        return self.folder / "preempt.stop"

    def sooner(self, stop: Stop, step: int) -> Stop:
        """The next stop: `stop`, or an earlier one that preemption adds. step: the number of steps of this rank so far.

        FaultError if this rank has already passed the iteration at which all stop.
        """
        if self.at is None:
            self._look(self._iteration(stop, step))
        if self.at is None or self.at > stop.iteration:
            return stop
        if self.strategy.steps(self.at * self.worker.workers) < step:
            raise FaultError(
                f"rank {self.worker.rank} had passed iteration {self.at}, after which all ranks stop for preemption; "
                f"it was at iteration {self._iteration(stop, step)}"
            )
        if self.at == stop.iteration:
            return dataclasses.replace(stop, leave=True)
        return dataclasses.replace(stop, iteration=self.at, evaluate=False, leave=True)

    def _iteration(self, stop: Stop, step: int) -> int:
        """The last iteration, `stop` at most, of which this rank has completed its steps."""
        iteration = stop.iteration
        while self.strategy.steps(iteration * self.worker.workers) > step:
            iteration -= 1
        return iteration

    def _look(self, iteration: int) -> None:
        now = time.monotonic()
        if self.since is None:
            self.since = now
            seconds = self.worker.clock.train_s() / max(1, iteration)
            write_in_place(self._mine, f"{iteration} {seconds:.9f}")
            if self.worker.rank == 0:
                print_event("signalled", iteration=iteration)
        if self.worker.rank == 0:
            self._choose(now - self.since, iteration)
        elif line := read_whole(self._stop):
            self.at = int(line)

    def _choose(self, waited_s: float, iteration: int) -> None:
        files = [self.folder / f"preempt.rank{rank}" for rank in range(self.worker.fabric.size)]
        lines = [line for line in map(read_whole, files) if line]
        if len(lines) < len(files):
            return
        iterations, seconds = zip(*(line.split() for line in lines))
        fastest = max(1e-6, min(map(float, seconds)))
        ahead = max(MARGIN_ITERATIONS, math.ceil((self.margin_s + waited_s) / fastest))
        self.at = max(iteration, *map(int, iterations)) + ahead
        write_in_place(self._stop, str(self.at))


def write_in_place(path: Path, line: str) -> None:
    """Fill an empty file with one line; its end shows readers that the line is complete."""
    with open(path, "r+", encoding="ascii") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_whole(path: Path) -> str | None:
    """The line that `write_in_place` wrote; None while it is missing or incomplete."""
    try:
        text = path.read_text(encoding="ascii")
    except OSError:
        return None
    return text.strip() if text.endswith("\n") else None
