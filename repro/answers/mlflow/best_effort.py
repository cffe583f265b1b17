"""Mirror a command's runs in MLflow while they run, with best effort; `repro track sync` sends what is missing.

The command waits for MLflow before a run's ranks start and after they end, when nothing is timed: for a server at most
SERVER_WAIT_S, after which it is not used again. Nothing waits while ranks run: live values are skipped while an earlier
request has no response.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from repro.answers.mlflow.send import send_run, show_experiment
from repro.answers.mlflow.source import of_folder
from repro.answers.mlflow.store import Store, prepare, reason

SERVER_WAIT_S, FILE_WAIT_S = 10.0, 120.0
INTERRUPTED_WAIT_S = 1.0  # after Ctrl-C


class BestEffort:
    """The mirrors of all runs of a command; thread-safe."""

    def __init__(self, store: Store, warn: Callable[[str], None] | None = None):
        """warn: called with one line for the user; by default prints it to standard error."""
        self.store = store
        self._warn = warn or (lambda text: print(text, file=sys.stderr, flush=True))
        self._abandoned: set[Path] = set()  # folders of runs that MLflow did not take
        self._turn = threading.Lock()
        self._request: threading.Thread | None = None
        self._off = self._warned = False

    def begin(self, folder: Path) -> None:
        """Mirror a run that is about to start."""
        self._abandoned.discard(folder)
        with self._turn:
            self._request_update(folder, running=True)

    def live(self, folder: Path) -> None:
        """Send the new values of a running run, unless an earlier request is still open."""
        if self._turn.acquire(blocking=False):
            try:
                if self._request is None or not self._request.is_alive():
                    self._request_update(folder, running=True, wait_s=0.0)
            finally:
                self._turn.release()

    def end(self, folder: Path, interrupted: bool = False) -> None:
        """Mirror a run that has ended; its folder has the outcome."""
        with self._turn:
            self._request_update(folder, running=False, wait_s=INTERRUPTED_WAIT_S if interrupted else None)

    def _request_update(self, folder: Path, running: bool, wait_s: float | None = None) -> None:
        """Update a run in a daemon thread, one at a time: one that hangs in a socket must block neither the command nor
        the end of the process."""
        limit_s = SERVER_WAIT_S if self.store.is_server else FILE_WAIT_S
        wait_s = limit_s if wait_s is None else wait_s
        if self._off or folder in self._abandoned:
            return
        try:
            prepare()  # takes seconds, which do not count for the server
        except Exception as error:  # of a broken installation
            self._give_up(f"cannot be imported ({reason(error)})")
            return
        if self._request:
            self._request.join(limit_s)  # of live values
        if not (self._request and self._request.is_alive()):
            self._request = threading.Thread(target=self._update, args=(folder, running), name="mlflow", daemon=True)
            self._request.start()
            self._request.join(wait_s)
        if wait_s and self._request.is_alive():
            self._give_up(f"has not answered within {wait_s:.0f} s")

    def _update(self, folder: Path, running: bool) -> None:
        try:
            source = of_folder(folder)
            experiment = send_run(self.store, source, running) if source else None
            if source and experiment and not running:
                show_experiment(self.store, experiment, source.identity.metric)
        except Exception as error:  # no error of MLflow stops a run; the next run tries again
            self._abandoned.add(folder)
            self._warn_once(f"does not take this run: {self.store.refusal(error) or reason(error)}")

    def _give_up(self, why: str) -> None:
        self._warn_once(why)
        self._off = True

    def _warn_once(self, what: str) -> None:
        """Warn of the first problem of the command."""
        if not (self._warned or self._off):
            self._warned = True
            where = f"warning: MLflow ({self.store.name})"
            self._warn(f"{where} {what}; results are complete without it, `repro track sync` then sends them")
