"""Ranks that need not import PyTorch, which is nearly all that a rank of a small run does: a process that has imported
it forks them.

`Zygote().python` is a program to take the place of Python in what starts ranks. mpirun, torchrun or a command starts it
as it would a rank; it hands its arguments, environment, folder and standard streams to the zygote, passes on signals,
and ends as the rank ends, which is killed if it ends before. Ranks that are forked hash alike and are no children of
their launcher: what that may hide the tests of fabrics, faults, endings, preemption and preflight find, which start
theirs without this.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from repro.launch import local

ROOT = Path(__file__).resolve().parents[2]
PASSED_ON = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2]

# The program. It starts at once, for it imports little; as a rank would, it ends with its parent.
ENTRY = """#!{python} -SE
import ctypes, json, os, signal, socket, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
link = socket.socket(socket.AF_UNIX)
link.connect(os.path.join(os.path.dirname(sys.argv[0]), "socket"))
asked = json.dumps([sys.argv, dict(os.environ), os.getcwd()]).encode()
socket.send_fds(link, [len(asked).to_bytes(8, "little")], [0, 1, 2])
link.sendall(asked)
for sign in {signs}:
    signal.signal(sign, lambda number, frame: link.sendall(bytes([number])))
told = link.recv(8)
status = int.from_bytes(told, "little", signed=True) if told else 1
if status < 0:
    if -status not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


class Zygote:
    """The folder of the program and of the socket; the process ends, and its ranks, with the one that started it."""

    def __init__(self) -> None:
        self.holder = tempfile.TemporaryDirectory(prefix="zygote")
        self.python = Path(self.holder.name) / "python"
        self.python.write_text(ENTRY.format(python=sys.executable, signs=[int(sign) for sign in PASSED_ON]))
        self.python.chmod(0o700)
        mpirun = Path(sys.executable).with_name("mpirun")
        if mpirun.exists():  # it is looked for beside Python
            self.python.with_name("mpirun").symlink_to(mpirun)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.python.with_name("socket")))
        listener.listen(100)
        command = [sys.executable, "-u", "-m", "tests.support.zygote", str(self.python), str(listener.fileno())]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], start_new_session=True
        )
        listener.close()


def mpirun(python: str, ranks: int, program: Sequence[str]) -> list[str]:
    """Not `apart`: the forked ranks are not in a network of mpirun's own, and would not find it there."""
    return [local.find_mpirun(), "-n", str(ranks), python, "-m", "mpi4py", *program]


def torchrun(python: str, ranks: int, program: Sequence[str]) -> list[str]:
    return [python, *local.torchrun_command(ranks, list(program))[1:]]


COMMANDS = {"mpi": mpirun, "torch": torchrun}


@functools.cache
def zygote() -> Zygote:
    """This process's own."""
    return Zygote()


def serve(python: str, listener: socket.socket) -> int:
    """Fork a rank for every connection, and tell each how its rank ended. In a rank: the status to end with."""
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ranks: dict[int, socket.socket] = {}  # by process
    with selectors.DefaultSelector() as watched:
        watched.register(woken, selectors.EVENT_READ)
        watched.register(listener, selectors.EVENT_READ)
        watched.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in watched.select():
                if key.fileobj is sys.stdin:  # its end: nobody writes there
                    for pid in ranks:
                        os.kill(pid, signal.SIGKILL)
                    return 0
                if key.fileobj is woken:
                    woken.recv(1000)
                elif key.fileobj is listener:
                    link, _ = listener.accept()
                    asked, streams = received(link)
                    if pid := os.fork() if asked else None:
                        ranks[pid] = link
                        watched.register(link, selectors.EVENT_READ, pid)
                    elif asked:
                        break
                    for stream in streams:
                        os.close(stream)
                elif not (signs := key.fileobj.recv(100)):
                    os.kill(key.data, signal.SIGKILL)
                    watched.unregister(key.fileobj)
                elif key.data in ranks:
                    for sign in signs:
                        os.kill(key.data, sign)
            else:
                while ranks and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    link = ranks.pop(ended[0])
                    with contextlib.suppress(KeyError):
                        watched.unregister(link)
                    with contextlib.suppress(OSError):
                        link.sendall(os.waitstatus_to_exitcode(ended[1]).to_bytes(8, "little", signed=True))
                    link.close()
                continue
            break
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for each in (woken, wake, listener, link, *ranks.values()):
        each.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return become(python, *json.loads(asked))


def received(link: socket.socket) -> tuple[bytes, list[int]]:
    """What a program asks for, and its standard streams; nothing where it has ended meanwhile."""
    size, streams, _, _ = socket.recv_fds(link, 8, 3)
    asked = b""
    while len(asked) < int.from_bytes(size, "little"):
        if not (more := link.recv(1 << 20)):
            return b"", streams
        asked += more
    return asked, streams


def become(python: str, argv: list[str], environment: dict[str, str], folder: str) -> int:
    """`python [-u] -m MODULE ...`, as it would run there."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    sys.executable = python  # torchrun starts its ranks with it
    _, module, *words = [word for word in argv[1:] if word != "-u"]
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    import torch._dynamo
    import torch.distributed.run
    import torch.nn.parallel.distributed  # noqa: F401

    from repro import fabric, strategies
    from repro.rank import loop, preemption, preflight, programs  # noqa: F401

    for each in strategies.names():
        strategies.load(each)
    for each in ("mpi", "torch", "virtual"):
        fabric.load(each)
    gc.freeze()
    sys.exit(serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2]))))
