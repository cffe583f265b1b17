"""System calls that Python 3.11 lacks. Every function raises OSError."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (1 << bit for bit in (17, 26, 27, 28, 29, 30))
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
PR_SET_PDEATHSIG = 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    function = getattr(_libc, name, None)
    if function is None:
        raise OSError(38, "no such system call", name)
    if function(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), name)


def unshare_namespaces(flags: int) -> None:
    """Move this process into new namespaces (NEWPID: its children)."""
    _call("unshare", flags)


def enter_namespace(path: str) -> None:
    """Move this process into the namespace of a file such as /proc/1/ns/net."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", handle, 0)
    finally:
        os.close(handle)


def loopback_up() -> None:
    """Activate loopback in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def mount_filesystem(source: str, target: str, kind: str | None, flags: int = 0) -> None:
    _call("mount", source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), None)


def set_hostname(name: str) -> None:
    _call("sethostname", name.encode(), len(name))


def killed_with_parent(parent: int) -> None:
    """Have this process killed when its parent process `parent` ends, or now if it has ended already."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() not in (parent, 0):  # 0: a parent in another PID namespace
        os.kill(os.getpid(), signal.SIGKILL)


def become_root_of_own() -> None:
    """Move this process into a new user namespace, in which its user is root and may make networks."""
    user, group = os.getuid(), os.getgid()
    unshare_namespaces(NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
