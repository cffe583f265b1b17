"""A fork server for ranks: each is forked from a process that has imported PyTorch already.

`multiprocessing`'s forkserver forks only for the process that started it; ranks are started by mpirun, torchrun or the
command, often in a network namespace. So three processes take part:

    stand-in   is started by the launcher in place of Python; sends the server its arguments, environment, folder and
               standard streams, forwards signals, and ends with the rank's status
    server     imports PyTorch once, then forks an attendant for each stand-in that connects
    attendant  joins the stand-in's namespaces, forks the rank, and reports its exit status to the stand-in

A rank is killed with its attendant, an attendant with the server or its stand-in, and the server with the command.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2)
NAMESPACES = ("user", "net", "uts", "ipc", "pid", "mnt")  # mnt last: it changes /proc
CHECK_EVERY_S, STOPPED_CHECKS = 1.0, 10  # a server that is stopped at so many checks in a row is killed


class Pool:
    """A server, and `python`, the path of its stand-in program; `close` ends the server and all ranks."""

    def __init__(self, environment: Mapping[str, str], preload: str = "repro.rank.preload"):
        """environment: of the server; variables that libraries read at import take effect for all ranks.
        preload: the module that it imports before it forks."""
        from repro.core.command_process import short_folder, temporary_folder  # a stand-in cannot import it

        self._folder = tempfile.TemporaryDirectory(prefix="repro-pool-", dir=temporary_folder() or short_folder())
        path = Path(self._folder.name, "socket")
        self.python = str(path.with_name("python"))
        stand_in = shlex.join([sys.executable, "-IS", __file__, str(path)])
        Path(self.python).write_text(f'#!/bin/sh\nexec {stand_in} "$@"\n')
        Path(self.python).chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1024)  # connections that may wait while the server imports
            self.server = subprocess.Popen(
                [sys.executable, "-u", "-m", "repro.launch.pool", "--serve", str(listener.fileno()), preload],
                env=dict(environment),
                stdin=subprocess.PIPE,  # closed when the command ends
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        self.was_stopped = False  # by SIGSTOP, and therefore killed
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Kill a server that stays stopped."""
        from repro.core.processes import StopWatch  # not in the stand-in

        watch = StopWatch(STOPPED_CHECKS)
        while self.server.poll() is None and not self.was_stopped:
            self.was_stopped = bool(watch.stopped([self.server.pid]))
            time.sleep(CHECK_EVERY_S)
        self.server.kill()

    def close(self) -> None:
        self.server.kill()
        self.server.communicate()
        self._folder.cleanup()


class Pools(contextlib.ExitStack):
    """The pools of one command, one per number of threads per rank; each is started when it is first needed."""

    def __init__(self, fresh: bool = False):
        """fresh: use no pool; each rank is a new Python process."""
        super().__init__()
        self.fresh = fresh
        self._pools: dict[int, Pool] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def python(self, threads: int, environment: Mapping[str, str]) -> Iterator[str]:
        """The interpreter to start the ranks of a run with. threads: per rank; environment: of ranks with so many."""
        if self.fresh:
            yield sys.executable
            return
        with self._lock:
            pool = self._pools.get(threads)
            if not pool or pool.server.poll() is not None:
                pool = self._pools[threads] = Pool(environment)
                self.callback(pool.close)
        try:
            yield pool.python
        except Exception as error:
            if not pool.was_stopped:
                raise
            raise type(error)(f"{error} (the process that ranks are forked from was stopped by SIGSTOP)") from None


def _wake_up(*_: object) -> None:
    """The handler of a signal whose number is written to the wake-up descriptor."""


def stand_in(path: str, words: list[str]) -> None:
    """Have a rank forked that runs `[-u] -m MODULE ...`, and end with its status. Uses only the standard library."""
    getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with its launcher
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until they can be forwarded
    answer = b""
    with contextlib.suppress(OSError):  # the server has ended, or ends meanwhile
        link = socket.socket(socket.AF_UNIX)
        link.connect(path)
        with open(os.memfd_create("request"), "w") as request:
            json.dump([words, dict(os.environ), os.getcwd()], request)
            request.flush()
            socket.send_fds(link, [b"?"], [0, 1, 2, request.fileno()])
        link.setblocking(False)
        signal.set_wakeup_fd(link.fileno())  # sends a signal's number at once; a handler would wait for `select`
        for number in FORWARDED:
            signal.signal(number, _wake_up)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        select.select([link], [], [])
        answer = link.recv(8)
    status = int.from_bytes(answer, "little", signed=True) if answer else -signal.SIGKILL
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL and SIGSTOP have no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve_forks(listener: socket.socket, preload: str) -> None:
    """Fork an attendant for each connection, until standard input is closed. Raises only in ranks, what they raise."""
    importlib.import_module(preload)
    server = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # attendants are not waited for
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a KeyboardInterrupt during the fork of a rank would be lost
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        link = listener.accept()[0]
        if os.fork() == 0:
            attend_rank(link, server)
        link.close()
    os.killpg(0, signal.SIGKILL)


def attend_rank(link: socket.socket, server: int) -> NoReturn:
    """Fork the rank, forward signals to it, report its exit status. Never returns; an error of the rank is raised."""
    from repro.launch.namespaces import linux

    streams = socket.recv_fds(link, 1, 4)[1]
    if len(streams) < 4:  # the stand-in has ended
        os._exit(0)
    with open(streams.pop()) as request:
        request.seek(0)
        words, environment, folder = json.load(request)
    caller = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    for kind in NAMESPACES:
        theirs = f"/proc/{caller}/ns/{kind}"
        if os.path.exists(theirs) and not os.path.samefile(theirs, f"/proc/self/ns/{kind}"):
            linux.enter_namespace(theirs)
    linux.killed_with_parent(server)  # again, because entering a user namespace resets it
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    attendant = os.getpid()
    if (rank := os.fork()) == 0:
        linux.killed_with_parent(attendant)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        inherited = _search_path(os.environ)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = [*_search_path(environment), *(place for place in sys.path if place not in inherited)]
        _, module, *sys.argv[1:] = [word for word in words if word != "-u"]  # [-u] -m MODULE ...
        signal.signal(signal.SIGINT, signal.default_int_handler)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        end_without_teardown()

    wakeup_write, wakeup_read = socket.socketpair()
    wakeup_write.setblocking(False)
    signal.set_wakeup_fd(wakeup_write.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake_up)
    watched = [link, wakeup_read]
    while True:
        ended, status = os.waitpid(rank, os.WNOHANG)
        if ended:  # and was not stopped
            with contextlib.suppress(OSError):
                link.send(os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True))
            os._exit(0)
        ready = select.select(watched, [], [])[0]
        if wakeup_read in ready:
            wakeup_read.recv(64)
        if link in ready:
            number = _next_signal(link)
            os.kill(rank, number or signal.SIGKILL)
            if not number:
                watched.remove(link)


def end_without_teardown() -> NoReturn:
    """End this process with status 0 as Python does, but without freeing all modules.

    Freeing them takes as long as a short run: it copies the memory pages that the process shares with the server.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as multiprocessing does
    atexit._run_exitfuncs()
    mpi = sys.modules.get("mpi4py.MPI")  # which Python ends only after its modules
    if mpi and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()
    for each in (sys.stdout, sys.stderr, *gc.get_objects()):  # the rank's own; those of its imports are frozen
        if issubclass(type(each), io.IOBase):
            with contextlib.suppress(OSError, ValueError):  # it may be closed
                each.flush()
    os._exit(0)


def _search_path(environment: Mapping[str, str]) -> list[str]:
    return [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]


def _next_signal(link: socket.socket) -> int:
    """The number of the next signal from the stand-in; 0 if that has ended."""
    try:
        return next(iter(link.recv(1)), 0)
    except OSError:
        return 0


if __name__ == "__main__":
    first, *others = sys.argv[1:]
    if first == "--serve":
        serve_forks(socket.socket(fileno=int(others[0])), others[1])
    else:
        stand_in(first, others)
