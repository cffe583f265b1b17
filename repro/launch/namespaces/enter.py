"""Run a command inside a host of the shaped network that $REPRO_SHAPED describes.

`python -m repro.launch.namespaces.enter HOST COMMAND...`: the command has its own network, host name, processes, IPC
and /dev/shm, as on a separate machine, so that no shared memory bypasses the link. Exits with the command's status
(128 + signal). If it is killed itself, the command and all its descendants are killed too.

With `--rsh` it replaces rsh, by which mpirun starts its daemons. mpirun itself runs in HOST `reprosw`, the switch, and
sees this machine's processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from repro.launch.namespaces import linux
from repro.launch.namespaces.links import SWITCH_NAME, hosts_file

VARIABLE = "REPRO_SHAPED"
AWAITED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SIGNALLED = 128  # exit status of a command that a signal terminated, minus the signal's number


def main(arguments: Sequence[str]) -> NoReturn:
    rsh = arguments[0] == "--rsh"
    name, *command = arguments[1:] if rsh else arguments
    if rsh:
        command = ["sh", "-c", " ".join(command)]
    network, parent = json.loads(os.environ[VARIABLE]), os.getppid()
    try:
        join_host(network, name)
        linux.killed_with_parent(parent)  # after joining, because entering a user namespace resets it
        if name == SWITCH_NAME:
            furnish_host(network, name)
            os.execvp(command[0], command)
        sys.exit(run_contained(network, name, lambda: os.execvp(command[0], command)))
    except OSError as error:
        print(f"{name}: {error.filename or 'cannot enter'}: {error.strerror}", file=sys.stderr)
        sys.exit(SIGNALLED - 1)


def join_host(network: Mapping[str, Any], name: str) -> None:
    """Move this process into a host's network, and into the user namespace that owns it."""
    daemon = f"/proc/{network['keeper']}"
    if network["own_user"] and os.stat(f"{daemon}/ns/user") != os.stat("/proc/self/ns/user"):
        linux.enter_namespace(f"{daemon}/ns/user")
    (host,) = (each for each in (network["switch"], *network["hosts"]) if each["name"] == name)
    linux.enter_namespace(f"{daemon}/fd/{host['handle']}")


def furnish_host(network: Mapping[str, Any], name: str) -> None:
    """Give this process its own host name, IPC and mounts: an empty /dev/shm and an /etc/hosts with all hosts."""
    linux.unshare_namespaces(linux.NEWUTS | linux.NEWIPC | linux.NEWNS)
    linux.set_hostname(name)
    linux.mount_filesystem("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount_filesystem("tmpfs", "/dev/shm", "tmpfs")
    names = Path("/dev/shm/hosts")
    names.write_text(hosts_file([network["switch"], *network["hosts"]]))
    if Path("/etc/hosts").exists():
        linux.mount_filesystem(str(names), "/etc/hosts", None, linux.MS_BIND)


def run_contained(network: Mapping[str, Any], name: str, run: Callable[[], Any]) -> int:
    """Call `run` in a new PID namespace inside the host; returns its exit status.

    There are two processes in between: this one, which forwards signals, and the namespace's first, which the kernel
    kills when this one ends, together with everything in the namespace.
    """
    linux.unshare_namespaces(linux.NEWPID)
    furnish_host(network, name)
    outside = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    first = os.fork()
    if first:
        return _wait_for(first)
    linux.killed_with_parent(outside)
    with contextlib.suppress(OSError):  # not permitted in a container that hides parts of /proc
        linux.mount_filesystem("proc", "/proc", "proc")
    child = os.fork()
    if child:
        os._exit(_wait_for(child))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        run()
    except OSError as error:
        print(f"{name}: {error.filename or 'cannot run the command'}: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os._exit(SIGNALLED - 1)


def _wait_for(child: int) -> int:
    """Forward signals to a child and reap orphans until the child ends; its status, or 128 + signal.

    AWAITED must be blocked since before the fork, or a signal could arrive before this process waits for it.
    """
    while True:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else SIGNALLED - code
        number = signal.sigwait(AWAITED)
        if number != signal.SIGCHLD:
            os.kill(child, number)


if __name__ == "__main__":
    main(sys.argv[1:])
