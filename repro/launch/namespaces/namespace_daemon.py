"""The process that holds a shaped network: it makes it, measures it, says so in one line and waits for its end.

`python -m repro.launch.namespaces.namespace_daemon '{"rate_gbit": 1, "hosts": 4, "state": FILE, "kept": false}'`. One
that is not kept (`repro testbed up` makes those) ends with its standard input: with the command that started it, even
if that is killed.
Namespaces end with their last process or open file: nothing can be left of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from repro.launch.namespaces import links, linux, selfcheck, sweep


def main(asked: dict[str, Any]) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        own_user = not may_make_networks()
        if own_user:
            linux.become_root_of_own()
        switch, hosts = links.build(asked["rate_gbit"], asked["hosts"])
    except (OSError, links.LinkError) as error:
        refuse(f"{error.filename or 'user namespace'}: {error.strerror}" if isinstance(error, OSError) else str(error))
    if not asked.get("state"):  # only asked whether it can be done
        say({"possible": True, "own_user": own_user})
        return
    measured = selfcheck.measure(hosts, asked["rate_gbit"])
    if not selfcheck.reached(measured, asked["rate_gbit"]):
        say({"slow": measured})
        return
    links.enter(switch)
    state = {
        "id": uuid.uuid4().hex,
        "keeper": os.getpid(),
        "keeper_started": sweep.started(os.getpid()),
        "kept": asked["kept"],
        "own_user": own_user,
        "rate_gbit": asked["rate_gbit"],
        "switch": vars(switch),
        "hosts": [vars(host) for host in hosts],
        "measured": measured | {"checked_at": datetime.now(UTC).isoformat(timespec="seconds")},
    }
    path = Path(asked["state"])
    new = path.with_suffix(".new")
    with open(new, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as long as this process lives: how others see that it does
        json.dump(state, file)
        file.flush()
        new.rename(path)
        try:
            say({"ready": state})
            wait(asked["kept"])
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
            sweep.end_processes(state["id"])


def may_make_networks() -> bool:
    """Whether this user is allowed to as it is: root, with the capability that containers take away."""
    try:
        linux.unshare(linux.NEWNET)
    except PermissionError:
        return False
    return True


def wait(kept: bool) -> None:
    if kept:
        os.close(1)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        signal.sigwait([signal.SIGTERM])
        return
    while os.read(0, 1):
        pass


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def refuse(reason: str) -> NoReturn:
    say({"refused": reason})
    sys.exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
