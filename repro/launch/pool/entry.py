"""Takes the place of Python in what starts ranks: `python -SE entry.py SOCKET [-u] -m MODULE ...` has the pool's server
(`repro.launch.pool.server`) fork a process that runs the module, and ends as that process ends.

It hands over its arguments, environment, folder, cores and standard streams, and passes on signals; if it is killed, so
is the process. It imports next to nothing, so it starts in some 10 ms.
"""

import ctypes
import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2)
SILENT = (signal.SIGKILL, signal.SIGSTOP)  # have no handler to be reset


def main(path: str, words: list[str]) -> None:
    getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)(1, signal.SIGKILL)  # as a rank would, it ends with its parent
    # one that comes before what runs has been asked for waits until it can be passed on
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    try:
        told = ask(path, words)
    except OSError:  # the connection was closed in the middle
        told = b""
    # nothing: the server is no more, nor is what it forked
    status = int.from_bytes(told, "little", signed=True) if told else -signal.SIGKILL
    if status < 0:
        if -status not in SILENT:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def ask(path: str, words: list[str]) -> bytes:
    """What the server says of how the process ended; nothing, or OSError, where the server has ended."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    asked = [words, dict(os.environ), os.getcwd(), sorted(os.sched_getaffinity(0))]
    sent = json.dumps(asked).encode()
    socket.send_fds(link, [len(sent).to_bytes(8, "little")], [0, 1, 2])
    link.sendall(sent)
    for sign in PASSED_ON:
        signal.signal(sign, lambda number, frame: link.sendall(bytes([number])))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    return link.recv(8)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
