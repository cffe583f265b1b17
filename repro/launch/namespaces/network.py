"""Management of shaped networks: create one, use the existing one, remove it.

At most one command per user and machine uses shaped networks at a time; two would disturb each other's times.
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

from repro.core import user_files
from repro.core.command_process import outside_environment
from repro.core.errors import FaultError, InputError, NotHere, TooBusy
from repro.core.not_none import not_none
from repro.launch.namespaces import links, private, remote_shell, selfcheck
from repro.launch.namespaces.enter import VARIABLE

START_LIMIT_S = 90.0
STOP_LIMIT_S = 15.0
KEPT, OWN = "kept.json", "run.json"  # state files of the networks made by `repro testbed up` and by a run


@dataclass
class ShapedNetwork:
    """An existing network; daemon: its process, if this command started it and will end it."""

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
        """The environment by which `enter` and `starter` find the network, and mpirun finds `enter`."""
        described = {name: self.state[name] for name in ("id", "keeper", "own_user", "switch", "hosts")}
        return {VARIABLE: json.dumps(described), **remote_shell.shell_variables()}

    @property
    def facts(self) -> dict[str, Any]:
        """For a run's record: the configured rate, and the self-check's measurements with their time."""
        measured = {name: value for name, value in self.state["measured"].items() if name not in ("attempts", "load")}
        return {"rate_gbit": self.rate_gbit, "hosts": self.hosts, **measured}

    def suits(self, rate_gbit: float, hosts: int) -> bool:
        return self.rate_gbit == rate_gbit and self.hosts >= hosts

    def close(self) -> None:
        """End the daemon and all processes inside; returns when none is left."""
        if self.daemon:
            not_none(self.daemon.stdin).close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.daemon.wait(STOP_LIMIT_S)
            self.daemon.kill()
            self.daemon.wait()
            not_none(self.daemon.stdout).close()


def check_shaping(rate_gbit: Any, hosts: Any, ranks: int = 2) -> None:
    """InputError for an impossible rate or number of hosts, NotHere if namespaces are not permitted."""
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
    """What this machine lacks for shaped networks and how to get it; empty if they work. It is tested by making one."""
    if not sys.platform.startswith("linux"):
        return "it is made of Linux network namespaces"
    for name in ("ip", "tc"):
        if links.find_tool(name) is None:
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


def acquire_network(rate_gbit: float, hosts: int) -> ShapedNetwork:
    """The network for this command's runs: an existing one if it suits, else a new one that ends with the command.

    TooBusy if the machine does not reach the rate, InputError if another command uses a shaped network.
    """
    lock_networks()
    if _mine and _mine[0].suits(rate_gbit, hosts) and not_none(_mine[0].daemon).poll() is None:
        return _mine[0]
    release_network()
    kept = find_network(KEPT)
    if kept and kept.suits(rate_gbit, hosts):
        return kept
    take_down(OWN)
    _mine.append(start_network(rate_gbit, hosts))
    return _mine[0]


_mine: list[ShapedNetwork] = []
_lock: list[IO[str]] = []


@atexit.register
def release_network() -> None:
    """Remove the network that `acquire_network` made."""
    while _mine:
        _mine.pop().close()


def give_back() -> None:
    """Remove the network that `acquire_network` made, and let another command use one."""
    release_network()
    unlock_networks()


def start_network(rate_gbit: float, hosts: int, kept: bool = False) -> ShapedNetwork:
    """Make and measure a network; a `kept` one outlives this command. InputError if that is impossible, TooBusy if its
    links do not reach the rate."""
    request = {"rate_gbit": rate_gbit, "hosts": hosts, "state": str(runtime_folder() / (KEPT if kept else OWN))}
    answer, daemon = _start(request, kept)
    if "ready" in answer:
        return ShapedNetwork(answer["ready"], None if kept else daemon)
    daemon.communicate()
    if "slow" in answer:
        measured = answer["slow"]
        raise TooBusy(
            f"{rate_gbit:g} Gbit/s with {hosts} hosts cannot be reached on this machine: the slowest link carried "
            f"{measured['goodput_gbit_min']:.3g} Gbit/s where {measured['possible_gbit']:.3g} are possible "
            f"(all hosts sending, best of {measured['attempts']}, load average {measured['load']:g}); "
            f"{selfcheck.capacity_advice(measured, rate_gbit)}, or wait until nothing else runs"
        )
    raise InputError(f"no shaped network here: {answer['refused']}")


def _start(request: dict[str, Any], kept: bool) -> tuple[dict[str, Any], subprocess.Popen]:
    daemon = subprocess.Popen(
        [sys.executable, "-m", "repro.launch.namespaces.namespace_daemon", json.dumps(request | {"kept": kept})],
        stdin=subprocess.DEVNULL if kept else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if kept else None,
        text=True,
        start_new_session=True,  # Ctrl-C ends the ranks first
        env=outside_environment() if kept else None,
        cwd=Path(__file__).resolve().parents[3],
    )
    stdout = not_none(daemon.stdout)
    line = stdout.readline() if select.select([stdout], [], [], START_LIMIT_S)[0] else ""
    if not line:
        daemon.kill()
        raise FaultError("the daemon of the shaped network ended without an answer; see its output above")
    return json.loads(line), daemon


def find_network(name: str = KEPT) -> ShapedNetwork | None:
    """The network of a state file, if its daemon lives. Files of dead daemons are left to `take_down`."""
    path = runtime_folder() / name
    with contextlib.suppress(FileNotFoundError), private.open_private(path, "r+") as file:
        if _locked_by_other(file):  # by the daemon, as long as it lives
            return ShapedNetwork(_state(path))
    return None


def left_inside() -> list[int]:
    """Processes in networks whose daemon was killed; they keep the namespaces open."""
    lost = [_state(runtime_folder() / name) for name in (KEPT, OWN) if not find_network(name)]
    return [pid for state in lost if state for pid in links.marked_processes(state["id"])]


def _state(path: Path) -> dict[str, Any]:
    """The content of a state file; empty if it is missing. InputError for a file that no daemon wrote."""
    try:
        with private.open_private(path, "r") as file:
            state = user_files.parse_json(file.read())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path}: not the state of a shaped network ({error}); remove it") from None
    if not isinstance(state, dict) or not isinstance(state.get("id"), str) or not isinstance(state.get("keeper"), int):
        raise InputError(f"{path}: not the state of a shaped network; remove it")
    return state


def take_down(name: str = KEPT) -> bool:
    """End a network and the processes left inside; whether there was a network, or a dead daemon's remains.

    FaultError names processes that do not end.
    """
    path = runtime_folder() / name
    left = _state(path)
    until = time.monotonic() + STOP_LIMIT_S
    while network := find_network(name):
        daemon, late = network.state["keeper"], time.monotonic() > until
        if links.start_ticks(daemon) == network.state.get("keeper_started"):  # its number was not reused
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGKILL if late else signal.SIGTERM)
        elif late:
            raise FaultError(f"{path}: in use, but process {daemon} is not the network's keeper")
        time.sleep(0.05)
    if left:
        if survivors := links.end_processes(left["id"], 0.0):
            raise FaultError(f"processes in the shaped network do not end: {', '.join(map(str, survivors))}")
        path.unlink(missing_ok=True)
    return bool(left)


def lock_networks() -> None:
    """Reserve shaped networks for this process until it ends; InputError names the command that has them."""
    if _lock:
        return
    file = private.open_private(runtime_folder() / "lock", "a+")  # stays open as long as this process lives
    if _locked_by_other(file):
        who = network_user() or "another command"
        file.close()
        raise InputError(f"a shaped network is in use by {who}; wait for its end")
    file.truncate(0)
    file.write(f"process {os.getpid()} (repro {' '.join(sys.argv[1:4])})")
    file.flush()
    _lock.append(file)


def unlock_networks() -> None:
    while _lock:
        _lock.pop().close()


@contextlib.contextmanager
def locking_networks() -> Iterator[None]:
    """`lock_networks` for the duration of a block."""
    before = bool(_lock)
    lock_networks()
    try:
        yield
    finally:
        if not before:
            unlock_networks()


def network_user() -> str:
    """The command that currently uses a shaped network; empty if there is none."""
    with contextlib.suppress(FileNotFoundError), private.open_private(runtime_folder() / "lock", "r+") as file:
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
    """The folder of the state files and the lock: below $REPRO_RUNTIME, else the system's runtime folder, else in /tmp.

    InputError if others can write to it, because `take_down` signals the process that a state file names.
    """
    base = os.environ.get("REPRO_RUNTIME") or ("/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR"))
    return private.private_folder(Path(base) / "repro-testbed" if base else Path(f"/tmp/repro-{os.geteuid()}"))
