"""Preemption: SIGTERM is a request to checkpoint and leave, so that the job can be started again elsewhere.

Slurm sends the signal to every rank, at somewhat different moments. All have to leave after the same iteration, and a
training that nobody disturbs must not pay for that. So only a rank that has had the signal looks at files in the run's
folder, after each of its steps:

1. each writes down at which iteration it is (`checkpoints/preempt.rank<r>`);
2. when all have, rank 0 chooses an iteration that none will have reached before it reads of it, and writes it down
   (`checkpoints/preempt.stop`);
3. each leaves the loop there: settle, checkpoint, event `preempted`, end. The parent's status says so.

A rank that finds itself behind that iteration already says so and ends, and all with it (one that waits for the others
there ends by its time limit); a signal that does not come to all of them has no effect. The run then goes on from the
checkpoint before. Where training ends sooner, it ends.

The files are made before training and then written in place: over NFS a file that is new may stay unseen for long,
while one that is opened again is looked at again.
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
from repro.core.processes import say
from repro.strategies.base import Strategy
from repro.training.stops import Stop
from repro.training.worker import Worker

MARGIN_S = 2.0  # for the slowest to read of the iteration; $REPRO_PREEMPT is another
MARGIN_ITERATIONS = 3
SIGNALLED = False  # whether this process has had the signal


def listen() -> None:
    """Take SIGTERM as the request, from now on, where the launcher says so ($REPRO_PREEMPT: seconds of margin)."""
    if "REPRO_PREEMPT" in os.environ:
        signal.signal(signal.SIGTERM, _signalled)
        signal.siginterrupt(signal.SIGTERM, False)  # libraries do not all go on with an interrupted call


def _signalled(number: int, frame: Any) -> None:
    global SIGNALLED
    SIGNALLED = True


class Notice:
    """One rank's part in agreeing where to stop."""

    def __init__(self, folder: Path, worker: Worker, strategy: Strategy):
        """Makes this rank's files; training may start when all ranks are through here."""
        self.worker, self.strategy = worker, strategy
        self.listening = "REPRO_PREEMPT" in os.environ and worker.blocks is None
        self.margin_s = float(os.environ.get("REPRO_PREEMPT") or MARGIN_S)
        self.folder = folder / "checkpoints"
        self.at: int | None = None  # the iteration to leave after
        self.since: float | None = None  # when this rank wrote down where it is
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
        """The next stop, `stop` if it is not the one that all leave at; `step`: how many this rank has done.

        FaultError where this rank has done more than that already.
        """
        if self.at is None:
            self._look(self._iteration(stop, step))
        if self.at is None or self.at > stop.iteration:
            return stop
        if self.strategy.steps(self.at * self.worker.workers) < step:
            here = self._iteration(stop, step)
            raise FaultError(
                f"rank {self.worker.rank} was at iteration {here} when it read that all stop at {self.at} to leave"
            )
        if self.at == stop.iteration:
            return dataclasses.replace(stop, leave=True)
        return dataclasses.replace(stop, iteration=self.at, evaluate=False, leave=True)

    def _iteration(self, stop: Stop, step: int) -> int:
        """The last iteration that this rank has done its part of; none behind `stop`."""
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
                say("signalled", iteration=iteration)
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
    """Fill an empty file, for readers elsewhere; they know by the line's end that it is whole."""
    with open(path, "r+", encoding="ascii") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_whole(path: Path) -> str | None:
    """What `write_in_place` wrote; None while it is not there, or not whole."""
    try:
        text = path.read_text(encoding="ascii")
    except OSError:
        return None
    return text.strip() if text.endswith("\n") else None
