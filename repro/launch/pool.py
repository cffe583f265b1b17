"""Ranks that need not import PyTorch: they are forked from one process that has imported it.

`multiprocessing`'s forkserver forks only for the process that started it; ranks are started by mpirun, torchrun or the
command, often in a network namespace. So three processes take part:

    stand-in   what a launcher starts in the place of Python: sends the server its arguments, environment, folder and
               standard streams, passes signals on, and ends as the rank ends
    server     imports PyTorch once, then forks an attendant for each stand-in that connects
    attendant  joins the stand-in's namespaces, forks the rank, and tells the stand-in how the rank ended

A rank is killed with its attendant, an attendant with the server or its stand-in, and the server with the command.
"""

from __future__ import annotations

import contextlib
import ctypes
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

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2)
NAMESPACES = ("user", "net", "uts", "ipc", "pid", "mnt")  # the mounts last: they bring another /proc
LOOK_EVERY_S, STOPPED_LOOKS = 1.0, 10  # a server that is seen stopped so many times in a row is killed


class Pool:
    """A server, and the program `python` that is a stand-in; both go with `close`, and all ranks with them."""

    def __init__(self, environment: Mapping[str, str]):
        """environment: of the server. What libraries read of it when they are imported holds for all ranks."""
        self._folder = tempfile.TemporaryDirectory(prefix="repro-pool-", dir="/tmp")  # a socket's path must be short
        path = Path(self._folder.name, "socket")
        self.python = str(path.with_name("python"))
        stand_in = shlex.join([sys.executable, "-IS", __file__, str(path)])
        Path(self.python).write_text(f'#!/bin/sh\nexec {stand_in} "$@"\n')
        Path(self.python).chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1024)  # so many may wait while it imports
            self.server = subprocess.Popen(
                [sys.executable, "-u", "-m", "repro.launch.pool", "--serve", str(listener.fileno())],
                env=dict(environment),
                stdin=subprocess.PIPE,  # whose end is that of the command
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        self.was_stopped = False  # by SIGSTOP, and therefore killed
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Kill a server that stays stopped; looks are counted, for a command may have been stopped with it."""
        looks = 0
        while self.server.poll() is None and not self.was_stopped:
            state = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()[0]
            looks = looks + 1 if state == "T" else 0
            self.was_stopped = looks >= STOPPED_LOOKS
            time.sleep(LOOK_EVERY_S)
        self.server.kill()

    def close(self) -> None:
        self.server.kill()
        self.server.communicate()
        self._folder.cleanup()


class Pools(contextlib.ExitStack):
    """The pools of one command: one for each number of threads that its runs' ranks have, started when needed."""

    def __init__(self, fresh: bool = False):
        """fresh: no pool; every rank is a new Python process."""
        super().__init__()
        self.fresh = fresh
        self._pools: dict[int, Pool] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def python(self, threads: int, environment: Mapping[str, str]) -> Iterator[str]:
        """The program that starts Python for the ranks of a run. threads: of each rank; environment: of such ranks."""
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


def _awake(*_: object) -> None:
    """A signal's handler where its number goes to the wake-up descriptor."""


def stand_in(path: str, words: list[str]) -> None:
    """Have a rank forked that runs `[-u] -m MODULE ...`, and end as it ends. Uses the standard library alone."""
    getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with its launcher
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until they can be passed on
    answer = b""
    with contextlib.suppress(OSError):  # the server has ended, or ends meanwhile
        link = socket.socket(socket.AF_UNIX)
        link.connect(path)
        with open(os.memfd_create("request"), "w") as request:
            json.dump([words, dict(os.environ), os.getcwd()], request)
            request.flush()
            socket.send_fds(link, [b"?"], [0, 1, 2, request.fileno()])
        link.setblocking(False)
        signal.set_wakeup_fd(link.fileno())  # a signal's number is sent at once; a handler would wait for `select`
        for number in PASSED_ON:
            signal.signal(number, _awake)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        select.select([link], [], [])
        answer = link.recv(8)
    status = int.from_bytes(answer, "little", signed=True) if answer else -signal.SIGKILL
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL and SIGSTOP have no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve(listener: socket.socket) -> None:
    """Fork an attendant for each connection, until standard input ends. Returns in ranks alone, when they have run."""
    import repro.rank.preload  # noqa: F401

    server = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for attendants
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a KeyboardInterrupt in a rank that is being forked would be lost
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        link = listener.accept()[0]
        if os.fork() == 0:
            return attend(link, server)
        link.close()
    os.killpg(0, signal.SIGKILL)


def attend(link: socket.socket, server: int) -> None:
    """Fork the rank, pass signals on to it, tell how it ended. Returns in the rank alone, when that has run."""
    from repro.launch.namespaces import linux

    streams = socket.recv_fds(link, 1, 4)[1]
    if len(streams) < 4:  # the stand-in has ended meanwhile
        os._exit(0)
    with open(streams.pop()) as request:
        request.seek(0)
        words, environment, folder = json.load(request)
    caller = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    for kind in NAMESPACES:
        theirs = f"/proc/{caller}/ns/{kind}"
        if os.path.exists(theirs) and not os.path.samefile(theirs, f"/proc/self/ns/{kind}"):
            linux.enter(theirs)
    linux.killed_with_parent(server)  # another user namespace has forgotten it
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    attendant = os.getpid()
    if (rank := os.fork()) == 0:
        linux.killed_with_parent(attendant)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:1] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        _, module, *sys.argv[1:] = [word for word in words if word != "-u"]  # [-u] -m MODULE ...
        signal.signal(signal.SIGINT, signal.default_int_handler)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return

    waking, woken = socket.socketpair()
    waking.setblocking(False)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _awake)
    watched = [link, woken]
    while True:
        ended, status = os.waitpid(rank, os.WNOHANG)
        if ended:  # and was not stopped
            with contextlib.suppress(OSError):
                link.send(os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True))
            os._exit(0)
        ready = select.select(watched, [], [])[0]
        if woken in ready:
            woken.recv(64)
        if link in ready:
            number = _received(link)
            os.kill(rank, number or signal.SIGKILL)
            if not number:  # the stand-in has ended
                watched.remove(link)


def _received(link: socket.socket) -> int:
    """The number of the next signal; 0 if the stand-in has ended."""
    try:
        return next(iter(link.recv(1)), 0)
    except OSError:
        return 0


if __name__ == "__main__":
    first, *others = sys.argv[1:]
    serve(socket.socket(fileno=int(others[0]))) if first == "--serve" else stand_in(first, others)
