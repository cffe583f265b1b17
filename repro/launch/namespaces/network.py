"""The shaped network as the rest of the project sees it: bring one up, use the one that is up, take it down.

At most one command at a time uses shaped networks (of a user on a machine): two would spoil each other's times.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from repro.core import strict_json
from repro.core.errors import FaultError, InputError, NotHere
from repro.core.not_none import not_none
from repro.launch.namespaces import links, private, remote_shell, selfcheck, sweep
from repro.launch.namespaces.enter import VARIABLE

START_LIMIT_S = 90.0
STOP_LIMIT_S = 15.0
KEPT, OWN = "kept.json", "run.json"  # state of the one that `repro testbed up` made, of the one that a run made


@dataclass
class ShapedNetwork:
    """One that is up. `daemon`: the process that holds it where this command started it and ends it."""

    state: dict[str, Any]
    daemon: subprocess.Popen | None = None

    @property
    def rate_gbit(self) -> float:
        return self.state["rate_gbit"]

    @property
    def hosts(self) -> int:
        return len(self.state["hosts"])

    @property
    def variables(self) -> dict[str, str]:
        """What `enter` and `starter` find the network by, and mpirun `enter`."""
        described = {name: self.state[name] for name in ("id", "keeper", "own_user", "switch", "hosts")}
        return {VARIABLE: json.dumps(described), **remote_shell.variables()}

    @property
    def facts(self) -> dict[str, Any]:
        """For the record of a run: rate asked, what the self-check measured, and when."""
        measured = {name: value for name, value in self.state["measured"].items() if name not in ("attempts", "load")}
        return {"rate_gbit": self.rate_gbit, "hosts": self.hosts, **measured}

    def suits(self, rate_gbit: float, hosts: int) -> bool:
        return self.rate_gbit == rate_gbit and self.hosts >= hosts

    def close(self) -> None:
        """End the daemon, and with it what still runs inside; returns when nothing is left."""
        if self.daemon:
            not_none(self.daemon.stdin).close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.daemon.wait(STOP_LIMIT_S)
            self.daemon.kill()
            self.daemon.wait()
            not_none(self.daemon.stdout).close()


def check(rate_gbit: Any, hosts: Any, ranks: int = 2) -> None:
    """InputError for a rate or a number of hosts that there cannot be, or where namespaces are not permitted."""
    if isinstance(rate_gbit, bool) or not links.LOWEST_GBIT <= rate_gbit <= links.HIGHEST_GBIT:
        range_ = f"{links.LOWEST_GBIT:g} to {links.HIGHEST_GBIT:g}"
        raise InputError(f"rate of {rate_gbit:g} Gbit/s: a shaped network has {range_}")
    if not isinstance(hosts, int) or isinstance(hosts, bool) or not 2 <= hosts <= links.MOST_HOSTS:
        raise InputError(f"{hosts} hosts: a shaped network has 2 to {links.MOST_HOSTS}")
    if hosts < ranks:
        raise InputError(f"{hosts} hosts for {ranks} ranks: a shaped network needs one host a rank")
    if missing := why_not():
        raise NotHere(f"no shaped network here: {missing}")


@functools.cache
def why_not() -> str:
    """What is missing on this machine and how to get it; empty where shaped networks can be had. Tried, not guessed."""
    if not sys.platform.startswith("linux"):
        return "it is made of Linux network namespaces"
    for name in ("ip", "tc"):
        if links.tool(name) is None:
            return f"`{name}` was not found: apt-get install iproute2 (or your system's package of that name)"
    answer, daemon = _start({"rate_gbit": 1.0, "hosts": 1}, kept=False)
    daemon.communicate()
    if "refused" not in answer:
        return ""
    reason = answer["refused"]
    if reason.startswith(("ip:", "tc:")):
        return f"the kernel refused a veth, a bridge or an HTB queue ({reason}): modprobe veth bridge sch_htb"
    return (
        f"network namespaces are not permitted ({reason}): be root with CAP_SYS_ADMIN (docker run --privileged), "
        "or have user namespaces allowed (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)"
    )


def acquire(rate_gbit: float, hosts: int) -> ShapedNetwork:
    """The network for runs of this command: the one that is up where it suits, else one of its own, until its end.

    InputError where the rate cannot be reached, or another command uses a shaped network.
    """
    lock()
    mine = _mine[0] if _mine else None
    if mine and mine.suits(rate_gbit, hosts) and not_none(mine.daemon).poll() is None:
        return mine
    release()
    kept = find(KEPT)
    if kept and kept.suits(rate_gbit, hosts):
        return kept
    take_down(OWN)
    _mine.append(start(rate_gbit, hosts))
    return _mine[0]


_mine: list[ShapedNetwork] = []
_lock: list[IO[str]] = []


@atexit.register
def release() -> None:
    """Take down what `acquire` brought up."""
    while _mine:
        _mine.pop().close()


def start(rate_gbit: float, hosts: int, kept: bool = False) -> ShapedNetwork:
    """A new network, measured; one that is `kept` outlives this command. InputError where it cannot be."""
    asked = {"rate_gbit": rate_gbit, "hosts": hosts, "state": str(runtime_folder() / (KEPT if kept else OWN))}
    answer, daemon = _start(asked, kept)
    if "ready" in answer:
        return ShapedNetwork(answer["ready"], None if kept else daemon)
    daemon.communicate()
    if "slow" in answer:
        found = answer["slow"]
        raise InputError(
            f"{rate_gbit:g} Gbit/s with {hosts} hosts cannot be reached on this machine: the slowest link carried "
            f"{found['goodput_gbit_min']:.3g} Gbit/s where {found['possible_gbit']:.3g} are possible "
            f"(all hosts sending, best of {found['attempts']}, load average {found['load']:g}); "
            f"{selfcheck.carried(found, rate_gbit)}, or wait until nothing else runs"
        )
    raise InputError(f"no shaped network here: {answer['refused']}")


def _start(asked: dict[str, Any], kept: bool) -> tuple[dict[str, Any], subprocess.Popen]:
    daemon = subprocess.Popen(
        [sys.executable, "-m", "repro.launch.namespaces.namespace_daemon", json.dumps(asked | {"kept": kept})],
        stdin=subprocess.DEVNULL if kept else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if kept else None,
        text=True,
        start_new_session=True,  # Ctrl-C ends the ranks first
        cwd=Path(__file__).resolve().parents[3],
    )
    said = not_none(daemon.stdout)
    line = said.readline() if select.select([said], [], [], START_LIMIT_S)[0] else ""
    if not line:
        daemon.kill()
        raise FaultError("the daemon of the shaped network ended without a word; its last ones are above")
    return json.loads(line), daemon


def find(name: str = KEPT) -> ShapedNetwork | None:
    """The network whose daemon lives, by its state file. One that a dead daemon left stays for `take_down`."""
    path = runtime_folder() / name
    with contextlib.suppress(FileNotFoundError), private.opened(path, "r+") as file:
        if _locked_by_other(file):  # by the daemon, as long as it lives
            return ShapedNetwork(_state(path))
    return None


def left_inside() -> list[int]:
    """Processes in networks whose daemon was killed; they hold on to the namespaces."""
    lost = [_state(runtime_folder() / name) for name in (KEPT, OWN) if not find(name)]
    return [pid for state in lost if state for pid in sweep.marked(state["id"])]


def _state(path: Path) -> dict[str, Any]:
    """What a state file holds; empty where there is none. InputError for one that no daemon wrote."""
    try:
        with private.opened(path, "r") as file:
            found = strict_json.parse(file.read())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path}: not the state of a shaped network ({error}); remove it") from None
    if not isinstance(found, dict) or not isinstance(found.get("id"), str) or not isinstance(found.get("keeper"), int):
        raise InputError(f"{path}: not the state of a shaped network; remove it")
    return found


def take_down(name: str = KEPT) -> bool:
    """End a network and what is left inside; True if there was one, or leftovers of one.

    FaultError names processes that do not end.
    """
    path = runtime_folder() / name
    left = _state(path)
    network = find(name)
    until = time.monotonic() + STOP_LIMIT_S
    while network:
        daemon, late = network.state["keeper"], time.monotonic() > until
        if sweep.started(daemon) == network.state.get("keeper_started"):  # and no other process of that number
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGKILL if late else signal.SIGTERM)
        elif late:
            raise FaultError(f"{path}: in use, but process {daemon} is not the network's keeper")
        time.sleep(0.05)
        network = find(name)
    if left:
        if deaf := sweep.end_processes(left["id"], 0.0):
            raise FaultError(f"processes in the shaped network do not end: {', '.join(map(str, deaf))}")
        path.unlink(missing_ok=True)
    return bool(left)


def lock() -> None:
    """Be the one command that uses shaped networks, until this process ends; InputError names the other."""
    if _lock:
        return
    file = private.opened(runtime_folder() / "lock", "a+")  # open as long as this process lives
    if _locked_by_other(file):
        who = user() or "another command"
        file.close()
        raise InputError(f"a shaped network is in use by {who}; wait for its end")
    file.truncate(0)
    file.write(f"process {os.getpid()} (repro {' '.join(sys.argv[1:4])})")
    file.flush()
    _lock.append(file)


def unlock() -> None:
    while _lock:
        _lock.pop().close()


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """`lock` for a moment."""
    before = bool(_lock)
    lock()
    try:
        yield
    finally:
        if not before:
            unlock()


def user() -> str:
    """The command that uses a shaped network now; empty for none."""
    with contextlib.suppress(FileNotFoundError), private.opened(runtime_folder() / "lock", "r+") as file:
        if _locked_by_other(file):
            file.seek(0)
            return file.read()
    return ""


def _locked_by_other(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def runtime_folder() -> Path:
    """Where the states and the lock lie: below $REPRO_RUNTIME, else the system's folder for such files, else in /tmp.

    InputError where it is not this user's alone: a state says which process `take_down` signals.
    """
    base = os.environ.get("REPRO_RUNTIME") or ("/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR"))
    return private.folder(Path(base) / "repro-testbed" if base else Path(f"/tmp/repro-{os.geteuid()}"))
