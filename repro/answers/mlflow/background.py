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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro.answers.mlflow.mirror import Mirror
from repro.answers.mlflow.store import Store, prepare, reason

SERVER_WAIT_S, FILE_WAIT_S = 10.0, 120.0  # at the end of the command, for what is still queued
INTERRUPTED_WAIT_S = 3.0  # the same where somebody pressed Ctrl-C
SAY_AFTER_S = 1.0  # of such a wait
LOST_S = 60.0  # seconds spent on requests that failed, after which MLflow is not asked again
MOST_RUNS = 200  # that a slow server may be behind


@dataclass
class Job:
    """One call of a run's mirror; `ended` also when it was given up."""

    run: RunMirror
    name: str
    arguments: tuple[Any, ...]
    ended: threading.Event = field(default_factory=threading.Event)


class RunMirror:
    """What a run tells MLflow, as `Mirror` does, but at once: each call only queues the work."""

    def __init__(self, background: Background):
        self.mirror = Mirror(background.store)
        self.on = True  # until something of this run could not be sent
        self._background = background

    def start(self, record: dict[str, Any]) -> None:
        job = self._background.put(Job(self, "start", (record,)))
        if not self._background.store.is_server:
            job.ended.wait(FILE_WAIT_S)

    def sync(self, folder: Path) -> None:
        self._background.put(Job(self, "sync", (folder,)))

    def finish(self, folder: Path, summary: dict[str, Any]) -> None:
        self._background.put(Job(self, "finish", (folder, summary)))

    def fail(self, folder: Path, why: str) -> None:
        self._background.put(Job(self, "fail", (folder, why)))

    def kill(self, folder: Path) -> None:
        self._background.put(Job(self, "kill", (folder,)))


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

    def put(self, job: Job) -> Job:
        """Queue a job; drops it where the run or the store is given up. A sync that is still waiting covers another,
        and the end of a run covers them all."""
        self._prepare()
        with self._changed:
            waiting = [other for other in self._jobs if other.run is job.run]
            if job.name == "start" and sum(other.name == "start" for other in self._jobs) >= MOST_RUNS:
                job.run.on = False
                self._say("is far behind")
            if self._off or not job.run.on or (job.name == "sync" and any(old.name == "sync" for old in waiting)):
                job.ended.set()
                return job
            for old in waiting:
                if old.name == "sync":
                    self._drop(old)
            self._jobs.append(job)
            self._changed.notify_all()
            if self._thread is None:
                # A daemon: one that is stuck in a socket must not keep the process from ending.
                self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
                self._thread.start()
        return job

    def close(self, limit_s: float | None = None) -> None:
        """Wait until everything is sent, for a limited time; then forget the rest, with a line that says so.

        limit_s: by default SERVER_WAIT_S or FILE_WAIT_S.
        """
        limit_s = limit_s or (SERVER_WAIT_S if self.store.is_server else FILE_WAIT_S)
        with self._changed:
            if not self._changed.wait_for(self._idle, min(SAY_AFTER_S, limit_s)):
                self._warn(f"waiting up to {limit_s:.0f} s for MLflow ({self.store.name})")
                if not self._changed.wait_for(self._idle, limit_s - SAY_AFTER_S):
                    self._say(f"has not taken everything within {limit_s:.0f} s")
            self._give_up()

    def _prepare(self) -> None:
        """Import MLflow on the caller's time, before the ranks run, and without the queue's lock."""
        if self._thread is None and not self._off:
            try:
                prepare()
            except Exception as error:  # as it comes with a broken installation
                with self._changed:
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
                    job.ended.set()
                    self._changed.notify_all()

    def _failed(self, job: Job, error: Exception, seconds: float) -> None:
        """This run is left to `repro track sync`; the next one is tried again, until too much time was lost so."""
        with self._changed:
            job.run.on = False
            for other in [other for other in self._jobs if other.run is job.run]:
                self._drop(other)
            self._say(f"does not take this run: {reason(error)}")
            self._lost_s += seconds
            if self._lost_s > LOST_S:
                self._give_up()

    def _say(self, what: str) -> None:
        """The one warning of a command: its first trouble. With the lock held."""
        if not self._warned and not self._off:
            self._warned = True
            where = f"warning: MLflow ({self.store.name})"
            self._warn(f"{where} {what}; results are complete without it, `repro track sync` sends them later")

    def _give_up(self) -> None:
        self._off = True
        for job in list(self._jobs):
            self._drop(job)
        self._changed.notify_all()

    def _drop(self, job: Job) -> None:
        self._jobs.remove(job)
        job.ended.set()

    def _idle(self) -> bool:
        return not self._jobs and not self._busy
