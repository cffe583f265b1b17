"""MLflow while a command's runs go on: best effort. What could not be sent is in the runs' folders, and
`repro track sync` sends it.

MLflow is asked before a run's ranks start and after they have ended, when nothing is timed, and the command waits for
it: for a server not longer than SERVER_WAIT_S, after which it is not asked again. While ranks run, nothing waits: live
values are left out as long as an earlier request has no answer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from repro.answers.mlflow.mirror import Mirror
from repro.answers.mlflow.source import of_folder
from repro.answers.mlflow.store import Store, prepare, reason

SERVER_WAIT_S, FILE_WAIT_S = 10.0, 120.0
INTERRUPTED_WAIT_S = 3.0  # where somebody pressed Ctrl-C


class BestEffort:
    """The mirrors of all runs of one command. Safe to call from several threads."""

    def __init__(self, store: Store, warn: Callable[[str], None] | None = None):
        """warn: called with the one line for the user; by default prints it to standard error."""
        self.store = store
        self._warn = warn or (lambda text: print(text, file=sys.stderr, flush=True))
        self._mirrors: dict[Path, Mirror | None] = {}  # by the runs' folders; None: given up
        self._turn = threading.Lock()
        self._request: threading.Thread | None = None
        self._off = self._warned = False

    def begin(self, folder: Path) -> None:
        """The run is about to start."""
        self._mirrors[folder] = Mirror(self.store)
        with self._turn:
            self._ask(folder, running=True)

    def live(self, folder: Path) -> None:
        """Send what is new of a run whose ranks are at work, unless MLflow is still busy with something."""
        if self._turn.acquire(blocking=False):
            try:
                if self._request is None or not self._request.is_alive():
                    self._ask(folder, running=True, wait_s=0.0)
            finally:
                self._turn.release()

    def end(self, folder: Path, interrupted: bool = False) -> None:
        """The run is over, well or not: its folder says how."""
        with self._turn:
            self._ask(folder, running=False, wait_s=INTERRUPTED_WAIT_S if interrupted else None)

    def _ask(self, folder: Path, running: bool, wait_s: float | None = None) -> None:
        """One request at a time, in a thread that can be left alone: one that is stuck in a socket must not keep the
        command from going on, nor, as a daemon, the process from ending."""
        limit_s = SERVER_WAIT_S if self.store.is_server else FILE_WAIT_S
        if self._off or self._mirrors[folder] is None:
            return
        try:
            prepare()  # seconds of computation, which are not the server's
        except Exception as error:  # as it comes with a broken installation
            self._give_up(f"cannot be imported ({reason(error)})")
            return
        if self._request:
            self._request.join(limit_s)  # live values
        if not (self._request and self._request.is_alive()):
            self._request = threading.Thread(target=self._update, args=(folder, running), name="mlflow", daemon=True)
            self._request.start()
            self._request.join(limit_s if wait_s is None else wait_s)
        if wait_s != 0.0 and self._request.is_alive():
            self._give_up(f"has not answered within {limit_s if wait_s is None else wait_s:.0f} s")

    def _update(self, folder: Path, running: bool) -> None:
        mirror = self._mirrors[folder]
        try:
            source = of_folder(folder)
            if mirror and source:
                mirror.update(source, running)
                if not (running and mirror.viewed):  # for a link to it must not lead nowhere
                    mirror.show()
                    mirror.viewed = True
        except Exception as error:  # whatever it is: nothing of MLflow stops a run; the next one is tried again
            self._mirrors[folder] = None
            self._say(f"does not take this run: {reason(error)}")

    def _give_up(self, why: str) -> None:
        self._say(why)
        self._off = True

    def _say(self, what: str) -> None:
        """The one warning of a command: its first trouble."""
        if not (self._warned or self._off):
            self._warned = True
            where = f"warning: MLflow ({self.store.name})"
            self._warn(f"{where} {what}; results are complete without it, `repro track sync` sends them later")
