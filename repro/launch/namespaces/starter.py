"""Start ranks of torch.distributed as plain processes, one in each host of a shaped network, in place of torchrun.

`python -m repro.launch.namespaces.starter RANKS PORT PROGRAM...`. If a rank fails, the others are ended and its status
is returned. A rank that a signal terminated is reported on stderr in mpirun's format.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from repro.launch.namespaces import enter, linux

SETTLE_S = 1.0  # a rank that fails because of another may be reaped before it
GRACE_S = 5.0


def main(arguments: Sequence[str]) -> NoReturn:
    count, port, *program = arguments
    network = json.loads(os.environ[enter.VARIABLE])
    common = {
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,  # the hosts share one machine's GPUs
        "MASTER_ADDR": network["hosts"][0]["address"],
        "MASTER_PORT": port,
    }
    received: list[int] = []  # SIGTERM
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    ranks = {_start(network, rank, common, program): rank for rank in range(int(count))}
    status = 0
    terminate_at = kill_at = None  # when the remaining ranks get SIGTERM, SIGKILL
    while ranks:
        pid, ended = os.waitpid(-1, os.WNOHANG)
        now = time.monotonic()
        if pid:
            code, rank = os.waitstatus_to_exitcode(ended), ranks.pop(pid)
            if code > enter.SIGNALLED and kill_at is None:  # the signal was not sent below
                name = network["hosts"][rank]["name"]
                line = f"process rank {rank} of {count} on host {name} exited on signal {code - enter.SIGNALLED}"
                print(line, file=sys.stderr, flush=True)
            status = status or code
        elif kill_at is not None and now > kill_at:
            _signal(ranks, signal.SIGKILL)
        elif terminate_at is not None and kill_at is None and now > terminate_at:
            kill_at = now + GRACE_S
            _signal(ranks, signal.SIGTERM)
        elif (status or received) and terminate_at is None:
            terminate_at = now if received else now + SETTLE_S
        if not pid:
            time.sleep(0.05)
    sys.exit(enter.SIGNALLED + received[0] if received else status)


def _start(network: dict, rank: int, common: dict[str, str], program: Sequence[str]) -> int:
    parent = os.getpid()
    if child := os.fork():
        return child
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        name = network["hosts"][rank]["name"]
        enter.join_host(network, name)
        linux.killed_with_parent(parent)
        variables = os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        os._exit(enter.run_contained(network, name, lambda: os.execve(program[0], list(program), variables)))
    except OSError as error:
        print(f"rank {rank}: {error.filename or 'cannot start'}: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def _signal(ranks: dict[int, int], number: int) -> None:
    for pid in ranks:
        os.kill(pid, number)  # a child that was not reaped: its number cannot be reused


if __name__ == "__main__":
    main(sys.argv[1:])
