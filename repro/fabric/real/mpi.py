"""The MPI fabric: processes under mpirun, a communicator for each channel, waits that poll with a time limit."""

from __future__ import annotations

import ctypes
import os
import pickle
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from repro.fabric.base import ANY_SOURCE, CHANNELS, CONTROL, DEFAULT_TIMEOUT_S, MAIN, Fabric, FabricError, Work
from repro.fabric.costs import REAL_TIME
from repro.fabric.real.threads import RealTimeFabric, TaskGroup, find_missing_ranks

# A wait first yields the core so many times, then sleeps, longer each time: ranks often outnumber cores.
YIELDS = 20
SLEEP_S, LONGEST_SLEEP_S = 20e-6, 50e-6
PAUSE_SHARE = 1e-3  # of the wait so far: polling of a long wait, which ends late by no more than this, costs no core
LONGEST_IDLE_SLEEP_S = 2e-3  # of `wait_idle`, which leaves the core, and Python's lock, to the computation
TIMER_SLACK, SLACK_NS = 29, 1000  # prctl(2): by default Linux lengthens every sleep by up to 50 µs


def sleep_exactly() -> None:
    """Make short sleeps of this thread, and of threads that it starts, precise (Linux)."""
    if prctl := getattr(ctypes.CDLL(None), "prctl", None):
        prctl(TIMER_SLACK, SLACK_NS, 0, 0, 0)


class MpiWork(Work):
    def __init__(
        self, fabric: MpiFabric, request: Any, what: str, buffers: Any, finish: Callable[[], object] | None = None
    ):
        """buffers: kept alive during the transfer. finish: called at its end."""
        self.fabric, self.request, self.what, self.buffers, self.finish = fabric, request, what, buffers, finish
        self.expected: int | None = None  # bytes of a receive
        self.finished = False

    def done(self) -> bool:
        if not self.finished:
            status = self.fabric.mpi.Status()
            try:
                self.finished = self.request.Test(status)
            except self.fabric.mpi.Exception as error:
                raise FabricError(f"rank {self.fabric.rank}: {self.what}: {error}") from None
            if self.finished:
                self._complete(status)
        return self.finished

    def _complete(self, status: Any) -> None:
        if self.expected is not None:
            if status.Is_cancelled():
                return
            self.source = status.Get_source()
            nbytes, expected = status.Get_count(self.fabric.mpi.BYTE), self.expected
            if nbytes != expected:
                raise FabricError(
                    f"rank {self.fabric.rank}: {self.what}: {nbytes} bytes where {expected} were expected"
                )
        if self.finish:
            self.finish()

    def wait(self, timeout: float | None = None) -> None:
        if not self.finished:
            self.fabric.poll(self.done, self.what, timeout)

    def cancel(self) -> None:
        if not self.finished:
            self.request.Cancel()
            self.wait()


class MpiUnaddressed(MpiWork):
    """A collective, or a receive from any rank: its timeout error names the ranks that do not respond."""

    def wait(self, timeout: float | None = None) -> None:
        try:
            super().wait(timeout)
        except FabricError as error:
            raise FabricError(f"{error}{find_missing_ranks(self.fabric)}") from None


class MpiFabric(RealTimeFabric):
    """MPI.COMM_WORLD or a part of it. CPU tensors are sent without copies, GPU tensors through pinned host memory."""

    name = "mpi"
    capabilities = frozenset({"threads", "tags", "any_source", "test", "cancel", "mpi"})

    def __init__(self, comm: Any = None, timeout_s: float = DEFAULT_TIMEOUT_S, tasks: TaskGroup | None = None):
        from mpi4py import MPI  # initialises MPI, so only in a rank

        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise FabricError("this MPI does not offer MPI_THREAD_MULTIPLE, which communication threads need")
        sleep_exactly()
        self.mpi = MPI
        world = comm if comm is not None else MPI.COMM_WORLD
        self.comms = [world.Dup() for _ in range(CHANNELS)]
        for comm in self.comms:
            comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank, self.size = world.Get_rank(), world.Get_size()
        self.timeout_s, self.costs, self.bytes_sent = timeout_s, REAL_TIME, 0
        self.tasks = tasks or TaskGroup(self.rank, timeout_s)  # shared by all groups of a rank
        if tasks is None:
            self.tasks.missing = lambda: find_missing_ranks(self)

    def poll(
        self, done: Callable[[], bool], what: str, timeout: float | None = None, longest_s: float = LONGEST_SLEEP_S
    ) -> None:
        """Wait for `done()`; FabricError after the limit. longest_s: the longest pause between two polls."""
        for _ in range(YIELDS):
            if done():
                return
            os.sched_yield()
        limit = self.timeout_s if timeout is None else timeout
        started, pause = time.monotonic(), SLEEP_S
        with self.tasks.waiting(what):
            while not done():
                self.tasks.check()
                waited = time.monotonic() - started
                if waited > limit:
                    raise self.tasks.timeout_error(limit)
                time.sleep(pause)
                pause = min(pause * 1.5, max(longest_s, waited * PAUSE_SHARE))

    def wait_idle(self, work: Work) -> None:
        if not isinstance(work, MpiWork):
            super().wait_idle(work)
        elif not work.finished:
            self.poll(work.done, work.what, float("inf"), LONGEST_IDLE_SLEEP_S)

    # point to point
    def isend(self, tensor: torch.Tensor, to: int, tag: int = 0, channel: int = MAIN) -> Work:
        data = self.tasks.streams.outgoing(tensor)
        size = data.numel() if channel != CONTROL else 0
        self.bytes_sent += size  # no bytecode between load and store lets another thread in
        send = partial(self.comms[channel].Isend, [data.numpy(), self.mpi.BYTE], to, tag)
        return self._begin(send, f"send to rank {to} (tag {tag}, channel {channel})", data)

    def _begin(self, send: Callable[[], Any], what: str, data: torch.Tensor) -> MpiWork:
        """Start a message with `send`."""
        return MpiWork(self, send(), what, data)

    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work:
        data, finish = self.tasks.streams.incoming(tensor)
        peer = "any rank" if source == ANY_SOURCE else f"rank {source}"
        origin = self.mpi.ANY_SOURCE if source == ANY_SOURCE else source
        request = self.comms[channel].Irecv([data.numpy(), self.mpi.BYTE], origin, tag)
        kind = MpiUnaddressed if source == ANY_SOURCE else MpiWork
        work = kind(self, request, f"receive from {peer} (tag {tag}, channel {channel})", data, finish)
        work.expected = data.numel()
        return work

    def wait_any(self, works: Sequence[Work], timeout: float | None = None) -> int:
        done: list[int] = []

        def any_done() -> bool:
            done.extend(index for index, work in enumerate(works) if work.done())
            return bool(done)

        self.poll(any_done, " or ".join(work.what for work in works if isinstance(work, MpiWork)), timeout)
        return done[0]

    # collectives of the MPI library
    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        data = self.tasks.streams.outgoing(tensor)
        finish = partial(self.tasks.streams.hand_back, data, tensor)
        self.bytes_sent += 2 * (self.size - 1) * data.numel() // self.size  # a ring's share
        request = self.comms[channel].Iallreduce(self.mpi.IN_PLACE, data.view(tensor.dtype).numpy(), self.mpi.SUM)
        return MpiUnaddressed(self, request, f"allreduce (channel {channel})", data, finish)

    def blocking_allreduce(self, tensor: torch.Tensor) -> None:
        """As `native_allreduce` of a CPU tensor, by MPI's blocking call, for which Open MPI uses other algorithms.

        It waits inside MPI without a time limit, as do libraries that call it.
        """
        self.comms[MAIN].Allreduce(self.mpi.IN_PLACE, tensor.numpy(), self.mpi.SUM)

    def broadcast(self, tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
        if self.rank == root:
            host = self.tasks.streams.outgoing(tensor)
            finish = None
            self.bytes_sent += (self.size - 1) * host.numel()  # the tree's messages, counted at the root
        else:
            host, finish = self.tasks.streams.incoming(tensor)
        request = self.comms[channel].Ibcast([host.numpy(), self.mpi.BYTE], root)
        MpiUnaddressed(self, request, f"broadcast from rank {root} (channel {channel})", host, finish).wait()

    def allgather(self, tensor: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
        mine = self.tasks.streams.outgoing(tensor)
        self.bytes_sent += (self.size - 1) * mine.numel()
        parts = self._gather(mine, torch.empty(self.size, mine.numel(), dtype=torch.uint8), "allgather", channel)
        return [part.view(tensor.dtype).view(tensor.shape).to(tensor.device) for part in parts]

    def _gather(self, mine: torch.Tensor, gathered: torch.Tensor, what: str, channel: int) -> torch.Tensor:
        """Receive every rank's bytes (n,), with the same n on all ranks, into `gathered` (ranks, n); returns it."""
        request = self.comms[channel].Iallgather([mine.numpy(), self.mpi.BYTE], [gathered.numpy(), self.mpi.BYTE])
        MpiUnaddressed(self, request, f"{what} (channel {channel})", (mine, gathered)).wait()
        return gathered

    def barrier(self, channel: int = MAIN) -> None:
        MpiUnaddressed(self, self.comms[channel].Ibarrier(), f"barrier (channel {channel})", None).wait()

    # groups, control plane, end
    def subgroup(self, ranks: Sequence[int]) -> Fabric | None:
        member = self.rank in ranks
        color = 0 if member else self.mpi.UNDEFINED
        self.barrier(CONTROL)  # this polls with a limit; Split would wait for an absent rank inside MPI
        comm = self.comms[CONTROL].Split(color, list(ranks).index(self.rank) if member else 0)
        return self._over(comm) if member else None

    def _over(self, comm: Any) -> MpiFabric:
        """The fabric of a group of ranks."""
        return MpiFabric(comm, self.timeout_s, self.tasks)

    def exchange(self, obj: Any) -> list[Any]:
        # mpi4py's own allgather of objects blocks inside MPI, without a time limit
        mine = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)
        length, gathered = torch.tensor([mine.numel()]), torch.empty(self.size, dtype=torch.int64)
        lengths = self._gather(length.view(torch.uint8), gathered, "exchange", CONTROL).tolist()
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        padded[: mine.numel()] = mine
        parts = self._gather(padded, torch.empty(self.size, len(padded), dtype=torch.uint8), "exchange", CONTROL)
        return [pickle.loads(part[:length].numpy().tobytes()) for part, length in zip(parts, lengths)]

    def close(self) -> None:
        self.barrier(CONTROL)
        for comm in self.comms:
            comm.Free()


def start(device: str, backend: str, timeout_s: float) -> MpiFabric:
    """The fabric of a rank that mpirun or srun started; MPI ignores device and backend."""
    return MpiFabric(timeout_s=timeout_s)
