"""The process of a command: its guard, its temporary folder, and its end after a signal.

After SIGINT, SIGTERM or SIGHUP a command ends within 3 s and leaves nothing, at any moment: KeyboardInterrupt unwinds
it; what has not unwound after UNWIND_S is killed, with all processes that the command started. If no Python code can
run meanwhile, or if the command is killed, its guard does this (`repro.core.command_guard`).
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from repro.core import command_guard
from repro.core.command_guard import ENDING, VARIABLE
from repro.core.not_none import not_none
from repro.core.processes import end_with_parent

UNWIND_S = 2.0
AGAIN_S = 0.05  # delay before a signal that had no effect is repeated
SHORT = 40  # characters of a temporary folder in which sockets can have their files, whose path is limited to 107

_link: socket.socket | None = None  # to the guard; None in a process that has none
_pid = 0  # of the process that has it
_statuses: Mapping[int, int] = {}
_resumes = True
_interrupted: list[int] = []  # the signals that this command has received
_said: list[int] = []  # the signals that a line has named


def start_guard() -> None:
    """Make this process a command's own: start its guard, and make its temporary folder, in which it makes all others.

    Whatever the process starts from now on ends with it, except for what is started with `outside_environment()`.
    """
    global _link, _pid
    folder = f"{short_folder()}/repro-{secrets.token_hex(4)}"
    _link, other = socket.socketpair()
    with other:
        subprocess.Popen(
            [sys.executable, "-IS", not_none(command_guard.__file__), folder],
            stdin=other.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
            # it is outside of a command that starts this one, too, and works on no results
            env={name: value for name, value in outside_environment().items() if not name.startswith("REPRO_")},
        )  # fmt: skip
    with contextlib.suppress(OSError):  # the disk may be full
        os.mkdir(folder, 0o700)  # by now the guard removes it
        tempfile.tempdir = folder
    os.environ[VARIABLE] = folder
    _pid = os.getpid()
    _link.setblocking(False)
    signal.set_wakeup_fd(_link.fileno(), warn_on_full_buffer=False)  # written at once, whatever this process is doing


def short_folder() -> str:
    """The folder for temporary files, if sockets can have their files in it; else /tmp."""
    with contextlib.suppress(OSError):  # the disk may be full
        if len(folder := tempfile.gettempdir()) <= SHORT:
            return folder
    return "/tmp"


def temporary_folder() -> str | None:
    """The temporary folder of the command to which this process belongs; None without one on this machine."""
    folder = os.environ.get(VARIABLE, "")
    return folder if os.path.isdir(folder) else None


def outside_environment() -> dict[str, str]:
    """The environment for a process that may outlive the command."""
    return {name: value for name, value in os.environ.items() if name != VARIABLE}


@contextlib.contextmanager
def signals_interrupt(statuses: Mapping[int, int], resumes: bool = True) -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does, so that a command ends after its processes.

    statuses: exit status by signal, where it is not 128 + signal number; resumes: whether the same command continues
    what this one did. Ignored signals (job scripts, nohup) stay ignored; outside the main thread nothing changes.
    """
    global _statuses, _resumes
    _statuses, _resumes = statuses, resumes
    _said.clear()
    signs = ENDING if threading.current_thread() is threading.main_thread() else ()
    before = {sign: signal.getsignal(sign) for sign in signs}
    handled = [sign for sign, to in before.items() if to in (signal.SIG_DFL, signal.default_int_handler)]
    default_hook = sys.unraisablehook
    sys.unraisablehook = lambda dropped: _send_again(dropped) or default_hook(dropped)
    for sign in handled:
        signal.signal(sign, _interrupt)
    try:
        yield
    finally:
        for sign in handled:
            signal.signal(sign, signal.SIG_DFL if _link else before[sign])  # a command that is over ends silently
        sys.unraisablehook = default_hook


def status_after(interrupt: KeyboardInterrupt) -> int:
    """Print why an interrupted command ends; its exit status. A process that is the command's own ends here."""
    (sign,) = interrupt.args or (signal.SIGINT,)
    print(_reason(sign), file=sys.stderr, flush=True)
    status = _statuses.get(sign, 128 + sign)
    if _link:  # without freeing all modules, as Python does at its end: it may take a second
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):  # nobody may read it any more
            sys.stdout.flush()
        os._exit(status)
    return status


def _interrupt(number: int, frame: Any) -> NoReturn:
    if _link and not _interrupted:
        _interrupted.append(number)
        _thread.start_new_thread(_end_late, (number,))  # Thread.start takes locks that the main thread may hold
    raise KeyboardInterrupt(signal.Signals(number))


def _end_late(number: int) -> None:
    """End this process, and all that it started, if it has not ended in time."""
    time.sleep(UNWIND_S)
    if not _said:
        with contextlib.suppress(OSError):
            os.write(2, f"{_reason(signal.Signals(number))}\n".encode())  # the main thread may hold sys.stderr
    command_guard.kill_processes(os.environ[VARIABLE])
    os._exit(_statuses.get(number, 128 + number))


def _reason(sign: signal.Signals) -> str:
    _said.append(sign)
    how = "interrupted" if sign == signal.SIGINT else f"terminated by {sign.name}"
    return f"repro: {how}{'; the same command resumes' if _resumes else ''}"


def _send_again(dropped: Any) -> bool:
    """Send a signal again whose KeyboardInterrupt Python dropped, as it does in fork hooks; whether it was one."""
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        return False
    (sign,) = dropped.exc_value.args or (signal.SIGINT,)

    def again() -> None:
        time.sleep(AGAIN_S)
        os.kill(os.getpid(), sign)

    _thread.start_new_thread(again, ())
    return True


def _after_fork() -> None:
    """A forked process is no command: signals end it silently, and it ends with the command."""
    global _link
    for sign in ENDING:
        if signal.getsignal(sign) is _interrupt:
            signal.signal(sign, signal.SIG_DFL)
    if _link:
        signal.set_wakeup_fd(-1)
        _link.close()
        _link = None
        end_with_parent(signal.SIGKILL, _pid)


os.register_at_fork(after_in_child=_after_fork)
