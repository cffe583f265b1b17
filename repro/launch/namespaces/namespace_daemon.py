"""The daemon of a shaped network: it creates the network, measures it, reports in one line and waits.

`python -m repro.launch.namespaces.namespace_daemon '{"rate_gbit": 1, "hosts": 4, "state": FILE, "kept": false}'`. With
`kept` (`repro testbed up`) it runs until SIGTERM; else until its standard input is closed, that is, until the command
that started it ends. The kernel removes the namespaces with their last process and open file.
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
from typing import Any

from repro.launch.namespaces import links, linux, selfcheck


def main(request: dict[str, Any]) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    rate_gbit = request["rate_gbit"]
    try:
        own_user = not may_make_networks()
        if own_user:
            linux.become_root_of_own()
        switch, hosts = links.build_network(rate_gbit, request["hosts"])
    except (OSError, links.LinkError) as error:
        reason = f"{error.filename or 'user namespace'}: {error.strerror}" if isinstance(error, OSError) else str(error)
        return report_message({"refused": reason})
    if not request.get("state"):  # the request is only whether it is possible
        return report_message({"possible": True, "own_user": own_user})
    measured = selfcheck.measure_links(hosts, rate_gbit)
    if not selfcheck.reached_rate(measured, rate_gbit):
        return report_message({"slow": measured})
    links.enter_host(switch)
    state = {
        "id": uuid.uuid4().hex,
        "keeper": os.getpid(),
        "keeper_started": links.start_ticks(os.getpid()),
        "kept": request["kept"],
        "own_user": own_user,
        "rate_gbit": rate_gbit,
        "switch": vars(switch),
        "hosts": [vars(host) for host in hosts],
        "measured": measured | {"checked_at": datetime.now(UTC).isoformat(timespec="seconds")},
    }
    path = Path(request["state"])
    new = path.with_suffix(".new")
    with open(new, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # shows others that this process lives
        json.dump(state, file)
        file.flush()
        new.rename(path)
        try:
            report_message({"ready": state})
            wait_for_end(request["kept"])
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
            links.end_processes(state["id"])


def may_make_networks() -> bool:
    """Whether this user may without a user namespace: as root with CAP_SYS_ADMIN, which containers remove."""
    try:
        linux.unshare_namespaces(linux.NEWNET)
    except PermissionError:
        return False
    return True


def wait_for_end(kept: bool) -> None:
    if kept:
        os.close(1)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        signal.sigwait([signal.SIGTERM])
        return
    while os.read(0, 1):
        pass


def report_message(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
