"""Programs of ranks in the tests of shaped networks: `python -m tests.support.shaped_ranks PROGRAM FABRIC`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from repro.launch.namespaces import links

ELEMENTS = 600_000  # of float32: 2.4 MB


def sent_bytes() -> int:
    """Bytes sent over this host's link, from the kernel's counters."""
    (line,) = (line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("eth0:"))
    return int(line.split(":")[1].split()[8])


def send_buffers() -> list[int]:
    """Sizes of the send buffers of this process's connections to other hosts."""
    sizes = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            connection = socket.socket(fileno=os.dup(int(descriptor.name)))
            with connection:
                (here, *_), (there, *_) = connection.getsockname(), connection.getpeername()
                if here != there and there.startswith(links.NETWORK) and there != links.SWITCH_ADDRESS:
                    sizes.append(connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
    return sizes


def traffic(fabric):
    """A ring allreduce: start and end, bytes sent by each host, and properties that distinguish the hosts."""
    import torch

    vector = torch.full((ELEMENTS,), float(fabric.rank + 1))
    fabric.exchange(None)
    before, started = sent_bytes(), time.monotonic()
    fabric.allreduce(vector, algorithm="ring")
    ended = time.monotonic()
    fabric.exchange(None)
    mine = {
        "started": started,
        "ended": ended,
        "sent": sent_bytes() - before,
        "sum": vector[-1].item(),
        "host": socket.gethostname(),
        "processes": len(list(Path("/proc").glob("[0-9]*"))),
        "shared_memory": sorted(path.name for path in Path("/dev/shm").iterdir()),
        "send_buffers": send_buffers(),
        "threads": os.environ["OMP_NUM_THREADS"],
    }
    everybody = fabric.exchange(mine)
    if fabric.rank == 0:
        print("@" + json.dumps({"ranks": everybody}), flush=True)
    fabric.close()


def wait(fabric):
    """Rank 0 reports that all ranks have started; then all sleep."""
    fabric.exchange(None)
    if fabric.rank == 0:
        print('@{"ready": true}', flush=True)
    time.sleep(300)


def kill(fabric):
    """Rank 1 is lost while the others wait for it."""
    fabric.exchange(None)
    if fabric.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    fabric.exchange(None)


if __name__ == "__main__":
    from repro.rank.main import run_guarded
    from tests.support.ranks import make_fabric
    from tests.support.waiting import LIMIT_S

    program, kind = sys.argv[1:]
    run_guarded(lambda: {"traffic": traffic, "wait": wait, "kill": kill}[program](make_fabric(kind, LIMIT_S)))
