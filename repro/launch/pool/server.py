"""The one process of a pool that has imported PyTorch: it forks a process for each `repro.launch.pool.entry` that asks.

It never starts a thread, MPI or CUDA, so what it forks is as a fresh process is after the same imports. `python -m
repro.launch.pool.server LISTENER`, the number of a listening socket's file descriptor; it ends, and with it all that it
has forked, when its standard input does.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import runpy
import select
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from repro.launch.namespaces import linux
from repro.launch.pool import title

PLANNING = "repro.launch.planning"  # the one module that waits for no more than it needs itself
# in this order: a host's mounts, its /proc among them, come last
NAMESPACES = ("user", "net", "uts", "ipc", "pid", "mnt")


class Asked(NamedTuple):
    """What to run, and as whom: of a process that stands for it."""

    words: list[str]  # arguments to Python
    environment: dict[str, str]
    folder: str
    cores: list[int]
    streams: list[int]  # file descriptors of stdin, stdout, stderr
    pid: int


def serve(listener: socket.socket) -> Asked | None:
    """Fork for every connection, and tell each how its process ended; None at the end. In what is forked: its part.

    What ranks alone need is imported as soon as nobody asks for anything, or before the first rank.
    """
    loaded = False
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    links: dict[int, socket.socket] = {}  # by process that was forked for it
    with selectors.DefaultSelector() as watched:
        for each in (woken, listener, sys.stdin):
            watched.register(each, selectors.EVENT_READ)
        while True:
            if not (ready := watched.select(None if loaded else 0)):
                preload_ranks()
                loaded = True
            for key, _ in ready:
                if key.fileobj is sys.stdin:
                    _end_all(links)
                    return None
                if key.fileobj is woken:
                    woken.recv(1000)
                elif key.fileobj is listener:
                    link = listener.accept()[0]
                    asked = _received(link)
                    if asked and not loaded and PLANNING not in asked.words:
                        preload_ranks()
                        loaded = True
                    pid = os.fork() if asked else None
                    if pid == 0:
                        signal.set_wakeup_fd(-1)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        for each in (woken, wake, listener, link, *links.values()):
                            each.close()
                        return asked
                    if pid:
                        links[pid] = link
                        watched.register(link, selectors.EVENT_READ, pid)
                    for stream in asked.streams if asked else ():
                        os.close(stream)
                elif not (signs := os.read(key.fd, 100)):  # it was killed
                    watched.unregister(key.fileobj)
                    if key.data in links:
                        os.kill(key.data, signal.SIGKILL)
                elif key.data in links:
                    for sign in signs:
                        os.kill(key.data, sign)
            _tell_ends(links, watched)


def _received(link: socket.socket) -> Asked | None:
    """What is asked for; None from one that has ended meanwhile."""
    size, streams, _, _ = socket.recv_fds(link, 8, 3)
    left, said = int.from_bytes(size, "little"), b""
    while left and (more := link.recv(min(left, 1 << 20))):  # no byte more: signals come behind it
        said += more
        left -= len(more)
    if left or not said:
        for stream in streams:
            os.close(stream)
        return None
    pid, _, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    words, environment, folder, cores = json.loads(said)
    return Asked(words, environment, folder, cores, streams, pid)


def _tell_ends(links: dict[int, socket.socket], watched: selectors.BaseSelector) -> None:
    while links and (ended := os.waitpid(-1, os.WNOHANG))[0]:
        link = links.pop(ended[0])
        with contextlib.suppress(KeyError):
            watched.unregister(link)
        with contextlib.suppress(OSError):
            link.sendall(os.waitstatus_to_exitcode(ended[1]).to_bytes(8, "little", signed=True))
        link.close()


def _end_all(links: dict[int, socket.socket]) -> None:
    for pid in links:
        os.kill(pid, signal.SIGKILL)
    for pid in links:
        os.waitpid(pid, 0)


def become(asked: Asked, server: int) -> None:
    """Run `[-u] -m MODULE ...` in this process, as a Python that was started there would."""
    linux.killed_with_parent(server)
    enter_namespaces(asked.pid)
    os.sched_setaffinity(0, asked.cores)
    for number, stream in enumerate(asked.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.environment)
    more = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
    sys.path[:1] = [asked.folder, *more]  # the first was the server's folder
    words = [word for word in asked.words if word != "-u"]
    title.show([sys.executable, *words, *title.rank_of(os.environ)])
    _, module, *rest = words
    sys.argv = [module, *rest]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def enter_namespaces(pid: int) -> None:
    """Go where a process is: into its network, host name, mounts. Process numbers are a child's alone, which then goes
    on, while this process waits for it and ends as it does."""
    apart = [kind for kind in NAMESPACES if _namespace(pid, kind) != _namespace("self", kind)]
    for kind in apart:
        linux.enter(f"/proc/{pid}/ns/{kind}")
    if "user" in apart:  # another user namespace forgets it
        linux.killed_with_parent(os.getppid())
    if "pid" not in apart:
        return
    waiting = os.getpid()
    if child := os.fork():
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(sign, lambda number, frame: os.kill(child, number))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            if -status not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status)
    linux.killed_with_parent(waiting)


def _namespace(pid: int | str, kind: str) -> tuple[int, int] | None:
    try:
        found = os.stat(f"/proc/{pid}/ns/{kind}")
    except OSError:  # a kernel without such
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def heeding_input() -> Iterator[None]:
    """The end of standard input ends this process while the body runs, which does not look there."""
    flags = fcntl.fcntl(sys.stdin, fcntl.F_GETFL)
    fcntl.fcntl(sys.stdin, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sys.stdin, fcntl.F_SETFL, flags | os.O_ASYNC)  # by SIGIO
    try:
        if select.select([sys.stdin], [], [], 0)[0]:  # it was before
            sys.exit(0)
        yield
    finally:
        fcntl.fcntl(sys.stdin, fcntl.F_SETFL, flags)


@heeding_input()
def preload() -> None:
    """Import what ranks and the planning of runs need, which neither starts a thread nor looks for a GPU."""
    from repro.core.registry import HOMES, home
    from repro.experiment import plan  # noqa: F401

    for kind in HOMES:
        home(kind)


@heeding_input()
def preload_ranks() -> None:
    """The same of what ranks alone need: another second's work."""
    import torch._dynamo  # every optimizer does
    import torch.distributed.run  # noqa: F401

    from repro import fabric
    from repro.rank import preflight, session  # noqa: F401

    for name in fabric.FABRICS:
        fabric.load(name)
    gc.freeze()  # pages of what is imported stay shared


if __name__ == "__main__":
    # the command's to hear; what is forked has it blocked too, so that one that comes at once waits until it is heard
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    preload()
    server = os.getpid()
    if asked := serve(socket.socket(fileno=int(sys.argv[1]))):
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until Python runs what was asked for
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        become(asked, server)
