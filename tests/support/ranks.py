"""Ranks for tests: a helper that starts them with a hard time limit, and the programs that they run.

In a test: `launch("mpi", 3, "suite", folder)`. In a rank: `python -m tests.support.ranks PROGRAM FABRIC FOLDER`.
"""

import contextlib
import functools
import json
import os
import signal
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import LIMIT_S

FAULTY_RANK = 1
ALPHA_S, BETA_S = 2e-3, 8e-10  # of the emulated fabric: its latency, which it adds, and seconds of a byte
FAULT_TIMEOUT_S = 8.0  # of the others, where that is what ends them
SHARED = "TESTED_POOL"  # the environment variable with `python` of the pool of a parent process


@dataclass
class SharedPool:
    """The pool of the process of pytest-xdist that started this one."""

    python: str


@functools.cache
def pool():
    """Ranks and commands of tests are forked from one process, which has imported what both need. It ends with the
    process that started it: this one, or the one that shares its own with this."""
    if python := os.environ.get(SHARED):
        return SharedPool(python)
    from repro.launch.local import rank_environment  # not in the ranks
    from repro.launch.pool import Pool

    own = rank_environment(threads=1)
    path = os.pathsep.join([str(Path(__file__).with_name("full_disk")), own["PYTHONPATH"]])
    return Pool(own | {"PYTHONPATH": path}, "tests.support.preloaded")


def forks_from(python):
    """`Pools.python` of a command whose ranks are forked from the pool with this `python`, but for fresh ones."""
    from repro.launch.pool import Pools  # not in the ranks

    own = Pools.python
    return lambda pools, *of: own(pools, *of) if pools.fresh else contextlib.nullcontext(python)


def launch(fabric, size, program, folder):
    """Run `size` ranks of a program below to their end; raises what `supervise` says of them if they failed."""
    from repro.testing import ranks  # not in the ranks

    arguments = ["-m", "tests.support.ranks", program, fabric, str(folder)]
    started_as = "mpi" if fabric == "emulated" else fabric
    python = sys.executable if program == "listeners" else pool().python  # those of a launcher without the pool
    ranks.launch_ranks(started_as, size, arguments, folder, python=python)


@functools.cache
def fault_ends():
    """{(fabric, fault): what will be raised}: all at once, because most of it is waiting."""

    def end(fabric, fault):
        with tempfile.TemporaryDirectory() as folder:
            try:
                launch(fabric, 3, fault, Path(folder))
            except Exception as error:
                return error

    pool()  # one for all threads
    threads = ThreadPoolExecutor(4)
    each = [(fabric, fault) for fabric in ("mpi", "torch") for fault in ("kill", "stop", "missing", "silent", *UNHEARD)]
    return {key: threads.submit(end, *key) for key in each}


def outcomes(folder, size):
    """{check: {rank: "ok" | "skip ..." | a traceback}} as the ranks of program `suite` left them."""
    entries = {}
    for rank in range(size):
        path = folder / f"rank{rank}.jsonl"
        for line in path.read_text().splitlines() if path.exists() else []:
            entry = json.loads(line)
            entries.setdefault(entry["check"], {})[rank] = entry["outcome"]
    return entries


# what runs in a rank


def make_fabric(kind, timeout_s):
    if kind == "mpi":
        from repro.fabric.real.mpi import MpiFabric

        return MpiFabric(timeout_s=timeout_s)
    if kind == "emulated":
        from repro.fabric.costs import REAL_TIME
        from repro.fabric.real import emulated

        return emulated.start(emulated.Dilation(2.0, 1.0, ALPHA_S, BETA_S), REAL_TIME, timeout_s)
    from repro.fabric.real.torch_dist import TorchFabric

    return TorchFabric("gloo", timeout_s)


def rendezvous(kind):
    """All ranks come together without the fabric that is under test."""
    if kind in ("mpi", "emulated"):
        from mpi4py import MPI

        MPI.COMM_WORLD.Barrier()
    else:
        import torch.distributed as dist

        dist.barrier()


def suite(kind, folder):
    """Every check on a fabric of its own, so that what one leaves behind does not reach the next."""
    from tests.support.fabric_checks import suite as fabric_suite

    first = make_fabric(kind, LIMIT_S)
    rank = first.rank
    with open(folder / f"rank{rank}.jsonl", "w") as out:

        def report(name, outcome):
            out.write(json.dumps({"check": name, "outcome": outcome}) + "\n")
            out.flush()

        for name, check in fabric_suite.CHECKS.items():
            rendezvous(kind)
            if rank == 0:
                print(f"@{json.dumps({'check': name})}", flush=True)
            report(name, "did not end")
            try:
                check(make_fabric(kind, fabric_suite.LIMIT_S))
                report(name, "ok")
            except fabric_suite.Skip as reason:
                report(name, f"skip {reason}")
            except BaseException:
                report(name, traceback.format_exc())
    rendezvous(kind)
    first.close()


def fault(kind, sign):
    """Allreduces without end; one rank goes in the middle of the fifth, between two hops of the ring."""
    import torch

    fabric = make_fabric(kind, FAULT_TIMEOUT_S if sign == signal.SIGSTOP else LIMIT_S)
    hops, isend = [4 * 2 * (fabric.size - 1) + 2], fabric.isend

    def faulty_isend(*args, **kwargs):
        hops[0] -= 1
        if hops[0] == 0:
            os.kill(os.getpid(), sign)
        return isend(*args, **kwargs)

    if fabric.rank == FAULTY_RANK:
        fabric.isend = faulty_isend
    for _ in range(1000):
        fabric.allreduce(torch.ones(99), algorithm="ring")
    raise AssertionError("the fault did not come")


def missing(kind):
    """A barrier to which one rank, stopped, does not come."""
    fabric = make_fabric(kind, FAULT_TIMEOUT_S)
    fabric.barrier()
    if fabric.rank == FAULTY_RANK:
        os.kill(os.getpid(), signal.SIGSTOP)
    fabric.barrier()
    raise AssertionError("the fault did not come")


class StopsWhenPickled:
    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGSTOP)
        return str, ()


def silent(kind):
    """An exchange of objects in whose middle one rank is stopped."""
    fabric = make_fabric(kind, FAULT_TIMEOUT_S)
    fabric.barrier()
    fabric.exchange(StopsWhenPickled() if fabric.rank == FAULTY_RANK else fabric.rank)
    raise AssertionError("the fault did not come")


def unheard(kind, wait):
    """Ranks that wait for no rank in particular, while one is stopped."""
    import torch

    fabric = make_fabric(kind, FAULT_TIMEOUT_S)
    fabric.barrier()
    if fabric.rank == FAULTY_RANK:
        os.kill(os.getpid(), signal.SIGSTOP)
    wait(fabric, torch.zeros(1))
    raise AssertionError("the fault did not come")


def from_anyone(fabric, message):
    from repro.fabric.base import ANY_SOURCE

    fabric.recv(message, ANY_SOURCE)


UNHEARD = {
    "event": lambda fabric, message: fabric.event().wait(),
    "any source": from_anyone,
    "allreduce": lambda fabric, message: fabric.native_allreduce(message).wait(),
}


def listeners(kind, folder):
    """{process: where it listens} of this rank and of its launcher, and whether they have a network of their own."""
    import torch

    fabric = make_fabric(kind, 60.0)
    fabric.allreduce(torch.ones(9)).wait()
    devices = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    entries = {"listens": {pid: listens(pid) for pid in (os.getpid(), os.getppid())}, "apart": devices == ["lo"]}
    (folder / f"rank{fabric.rank}").write_text(json.dumps(entries))
    fabric.close()


def listens(pid):
    """The addresses, in the kernel's hexadecimal, of the TCP sockets of a process that take connections."""
    entries = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # LISTEN
                entries[f"socket:[{fields[9]}]"] = fields[1].split(":")[0]
    handles = [os.readlink(handle) for handle in Path(f"/proc/{pid}/fd").iterdir() if handle.is_symlink()]
    return [entries[handle] for handle in handles if handle in entries]


PROGRAMS = {
    "listeners": listeners,
    "suite": suite,
    "kill": lambda kind, folder: fault(kind, signal.SIGKILL),
    "stop": lambda kind, folder: fault(kind, signal.SIGSTOP),
    "missing": lambda kind, folder: missing(kind),
    "silent": lambda kind, folder: silent(kind),
    **{name: lambda kind, folder, wait=wait: unheard(kind, wait) for name, wait in UNHEARD.items()},
}


if __name__ == "__main__":
    import torch

    from repro.rank.main import run_guarded

    torch.set_num_threads(1)
    program, kind, folder = sys.argv[1:]
    run_guarded(lambda: PROGRAMS[program](kind, Path(folder)))
