"""The mirror of a command's runs: one thread of its own, so that MLflow never delays a rank or a run.

A tracking server may be down, slow or silent. What it is asked is a queue that only this thread works on; the command
waits for it once, at its very end, and not for long. What was not sent by then is in the runs' folders, and
`repro track sync` sends it.

A file is another matter: it cannot hang, but opening it is work for the cores that the ranks are about to be timed on.
So a run waits for its own start (and with it for the end of the one before), as long as the store is a file.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from repro.answers.mlflow.mirror import Mirror
from repro.answers.mlflow.store import Store, prepare, reason

SERVER_WAIT_S, FILE_WAIT_S = 10.0, 120.0  # at the end of the command, for what is still queued
INTERRUPTED_WAIT_S = 3.0  # the same where somebody pressed Ctrl-C
SAY_AFTER_S = 1.0  # of such a wait
LOST_S = 60.0  # seconds spent on requests that failed, after which MLflow is not asked again


class RunMirror:
    """What a run tells MLflow, as `Mirror` does, but at once: each call only queues the work."""

    def __init__(self, background: Background):
        self.mirror = Mirror(background.store)
        self.on = True  # until something of this run could not be sent
        self._background = background

    def start(self, record: dict[str, Any]) -> None:
        self._background.put(self, "start", record)
        if not self._background.store.is_server:
            self._background.wait(FILE_WAIT_S)

    def sync(self, folder: Path) -> None:
        self._background.put(self, "sync", folder)

    def finish(self, folder: Path, summary: dict[str, Any]) -> None:
        self._background.put(self, "finish", folder, summary)

    def fail(self, folder: Path, why: str) -> None:
        self._background.put(self, "fail", folder, why)

    def kill(self, folder: Path) -> None:
        self._background.put(self, "kill", folder)


class Job(NamedTuple):
    """One call of a run's mirror."""

    run: RunMirror
    name: str
    arguments: tuple[Any, ...]


class Background:
    """The mirrors of all runs of one command; `close` at its end. Safe to call from several threads."""

    def __init__(self, store: Store, warn: Callable[[str], None] | None = None):
        """warn: called with each line for the user, from any thread; by default prints it to standard error."""
        self.store = store
        self._warn = warn or (lambda text: print(text, file=sys.stderr, flush=True))
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._busy = False  # whether a job is being worked on
        self._off = False  # closed, or lost for good
        self._warned = False
        self._lost_s = 0.0
        self._thread: threading.Thread | None = None

    def add(self) -> RunMirror:
        return RunMirror(self)

    def put(self, run: RunMirror, name: str, *arguments: Any) -> None:
        """Queue a job; drops it where the run or the store is given up. A sync that is still waiting covers another,
        and the end of a run covers them all."""
        self._prepare()
        with self._changed:
            syncs = [job for job in self._jobs if job.run is run and job.name == "sync"]
            if self._off or not run.on or (name == "sync" and syncs):
                return
            for job in syncs:
                self._jobs.remove(job)
            self._jobs.append(Job(run, name, arguments))
            self._changed.notify_all()
            if self._thread is None:
                # A daemon: one that is stuck in a socket must not keep the process from ending.
                self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
                self._thread.start()

    def wait(self, limit_s: float) -> bool:
        """Whether everything is sent, or given up, within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs and not self._busy, limit_s)

    def close(self, limit_s: float | None = None) -> None:
        """Wait until everything is sent, for a limited time; then forget the rest, with a line that says so.

        limit_s: by default SERVER_WAIT_S or FILE_WAIT_S.
        """
        limit_s = limit_s or (SERVER_WAIT_S if self.store.is_server else FILE_WAIT_S)
        if not self.wait(min(SAY_AFTER_S, limit_s)):
            self._warn(f"waiting up to {limit_s:.0f} s for MLflow ({self.store.name})")
            if not self.wait(limit_s - SAY_AFTER_S):
                self._say(f"has not taken everything within {limit_s:.0f} s")
        self._give_up()

    def _prepare(self) -> None:
        """Import MLflow on the caller's time, before the ranks run, and without the queue's lock."""
        if self._thread is None and not self._off:
            try:
                prepare()
            except Exception as error:  # as it comes with a broken installation
                self._say(f"cannot be imported ({reason(error)})")
                self._give_up()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._off)
                if self._off:
                    return
                job, self._busy = self._jobs.popleft(), True
            began = time.monotonic()
            try:
                getattr(job.run.mirror, job.name)(*job.arguments)
            except Exception as error:  # whatever it is: nothing of MLflow stops a run
                self._failed(job, error, time.monotonic() - began)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _failed(self, job: Job, error: Exception, seconds: float) -> None:
        """This run is left to `repro track sync`; the next one is tried again, until too much time was lost so."""
        with self._changed:
            job.run.on = False
            self._jobs = deque(other for other in self._jobs if other.run is not job.run)
        self._say(f"does not take this run: {reason(error)}")
        self._lost_s += seconds
        if self._lost_s > LOST_S:
            self._give_up()

    def _say(self, what: str) -> None:
        """The one warning of a command: its first trouble."""
        with self._changed:
            first, self._warned = not (self._warned or self._off), True
        if first:
            where = f"warning: MLflow ({self.store.name})"
            self._warn(f"{where} {what}; results are complete without it, `repro track sync` sends them later")

    def _give_up(self) -> None:
        with self._changed:
            self._off = True
            self._jobs.clear()
            self._changed.notify_all()
