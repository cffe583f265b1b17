"""Ranks of torch.distributed as plain processes, one in each host of the shaped network: what torchrun would start.

`python -m repro.launch.namespaces.starter RANKS PORT PROGRAM...`. When a rank fails the others
are ended, and its status is this program's; a rank that a signal ended is named on stderr in mpirun's words.
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

SETTLE_S = 1.0  # a rank that misses another may end before that other's end is seen
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
    ended_by: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: ended_by.append(number))
    ranks = {_start(network, rank, common, program): rank for rank in range(int(count))}
    status = 0
    asked = killed = None  # when those that are left are to be sent SIGTERM, SIGKILL
    while ranks:
        pid, ended = os.waitpid(-1, os.WNOHANG)
        now = time.monotonic()
        if pid:
            code, rank = os.waitstatus_to_exitcode(ended), ranks.pop(pid)
            if code > enter.SIGNALLED and killed is None:  # by no signal of ours
                name = network["hosts"][rank]["name"]
                how = f"process rank {rank} of {count} on host {name} exited on signal {code - enter.SIGNALLED}"
                print(how, file=sys.stderr, flush=True)
            status = status or code
        elif killed is not None and now > killed:
            _signal(ranks, signal.SIGKILL)
        elif asked is not None and killed is None and now > asked:
            killed = now + GRACE_S
            _signal(ranks, signal.SIGTERM)
        elif (status or ended_by) and asked is None:
            asked = now if ended_by else now + SETTLE_S
        if not pid:
            time.sleep(0.05)
    sys.exit(enter.SIGNALLED + ended_by[0] if ended_by else status)


def _start(network: dict, rank: int, common: dict[str, str], program: Sequence[str]) -> int:
    parent = os.getpid()
    if child := os.fork():
        return child
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        name = network["hosts"][rank]["name"]
        enter.join(network, name)
        linux.killed_with_parent(parent)
        variables = os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        os._exit(enter.contain(network, name, lambda: os.execve(program[0], list(program), variables)))
    except OSError as error:
        print(f"rank {rank}: {error.filename or 'cannot start'}: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def _signal(ranks: dict[int, int], number: int) -> None:
    for pid in ranks:
        os.kill(pid, number)  # ours and not waited for: there is no other of that number


if __name__ == "__main__":
    main(sys.argv[1:])
