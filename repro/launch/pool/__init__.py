"""Ranks that need not import PyTorch: forked, one and all, from a process that has.

Importing it takes longer than many a run. A `Pool` is that process (`server`), and `Pool.python` a program that takes
the place of Python wherever ranks are started (`entry`): mpirun, torchrun or a command starts it as it would a rank,
wherever that is: in a network namespace, a host of a shaped network.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from repro.core.errors import FaultError
from repro.core.not_none import not_none
from repro.launch.pool import entry, title

SOCKET_PATH_BYTES = 107  # that a socket's path may have
PENDING = 1024  # connections that wait for the server, which may still be importing
LOOK_EVERY_S = 1.0
STOPPED_LOOKS = 10  # so often in a row a server is seen stopped (SIGSTOP) before it is ended, and its ranks with it
END_S = 10.0  # that a server may take to end by itself


class Pool:
    """The server, from `__init__` on, and the program `python`; both go with `close`, and what was forked with them."""

    def __init__(self, environment: Mapping[str, str]):
        """environment: of the server; what libraries read of it as they are imported holds for all that it forks."""
        self._folder = tempfile.TemporaryDirectory(prefix="repro-pool-", dir=_short_place())
        path = Path(self._folder.name) / "socket"
        self.python = str(path.with_name("python"))
        starts = shlex.join([sys.executable, "-SE", entry.__file__, str(path)])
        Path(self.python).write_text(f'#!/bin/sh\nexec {starts} "$@"\n')
        Path(self.python).chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(PENDING)
            self._server = subprocess.Popen(
                [sys.executable, "-u", "-m", "repro.launch.pool.server", str(listener.fileno()), title.ROOM],
                env=dict(environment),
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        self.was_stopped = False  # and therefore ended
        self._closed = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def _watch(self) -> None:
        """End a server that stays stopped: nobody would hear how what it has forked ends.

        Looks are counted, not seconds: a command that was stopped with its server goes on with it.
        """
        looks = 0
        while not self._closed.wait(LOOK_EVERY_S):
            looks = looks + 1 if _stopped(self._server.pid) else 0
            if looks >= STOPPED_LOOKS:
                self.was_stopped = True
                self._server.kill()
                return

    def close(self) -> None:
        """End the server and what it has forked, within `END_S` seconds."""
        self._closed.set()
        self._watching.join()
        with contextlib.suppress(OSError):
            not_none(self._server.stdin).close()
        try:
            self._server.wait(END_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._folder.cleanup()


def _stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:  # it has ended, or this is a system without /proc
        return False


def _short_place() -> str | None:
    """Where the folder of a socket is made: /tmp where the path would be too long in $TMPDIR; None: there."""
    longest = Path(tempfile.gettempdir(), "repro-pool-12345678", "socket")
    return "/tmp" if len(os.fsencode(longest)) > SOCKET_PATH_BYTES else None


class Pools:
    """The pools of one command, one for each number of threads that its runs' ranks have, started when first needed."""

    def __init__(self, fresh: bool = False):
        """fresh: no pool; every rank is a Python of its own."""
        self.fresh = fresh
        self._pools: dict[int, Pool] = {}
        self._users: dict[Pool, int] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def python(self, threads: int, environment: Mapping[str, str]) -> Iterator[str]:
        """What starts Python for the ranks of a run, while it lasts. A pool in which a run has failed serves no other.

        threads: of each rank; environment: of ranks that have so many.
        """
        if self.fresh:
            yield sys.executable
            return
        with self._lock:
            if threads not in self._pools:
                self._pools[threads] = Pool(environment)
            pool = self._pools[threads]
            self._users[pool] = self._users.get(pool, 0) + 1
        try:
            yield pool.python
        except BaseException as error:
            with self._lock:
                if self._pools.get(threads) is pool:
                    del self._pools[threads]
            if isinstance(error, FaultError) and pool.was_stopped:
                raise type(error)(f"{error} (the process that it was forked from was stopped by SIGSTOP)") from None
            raise
        finally:
            with self._lock:
                self._users[pool] -= 1
                last = not self._users[pool] and pool not in self._pools.values()
            if last:
                pool.close()

    def close(self) -> None:
        """End all pools; no run may be under way."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def __enter__(self) -> Pools:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
