"""The torch.distributed fabric over NCCL: a GPU for each rank, ordered transfers without tags, a watchdog for hangs.

`repro.testing.nccl` checks on a CPU that a strategy follows NCCL's rules. Not yet run on GPUs.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import torch
import torch.distributed as dist

from repro.fabric.base import (
    ANY_SOURCE,
    BACKGROUND,
    CONTROL,
    DEFAULT_TIMEOUT_S,
    MAIN,
    NCCL,
    DoneWork,
    FabricError,
    Work,
    timeout_error,
)
from repro.fabric.collectives.auto import Crossover
from repro.fabric.real.threads import TaskGroup
from repro.fabric.real.torch_dist import TorchFabric, TorchWork

CHECK_S = 1.0  # between two checks
GRACE_S = 5.0  # before the process of a rank that hangs in the library is ended


class Transfer(Protocol):
    """torch's handle of an operation in progress."""

    def is_completed(self) -> bool: ...


@dataclass
class Watched:
    """An operation in progress. since: when it became the first in its stream."""

    transfer: Transfer
    what: str
    task: str
    since: float


class Watchdog:
    """Watches the operations of one rank.

    A stream runs its operations in order, so only the first unfinished one can be late; its time counts from when it
    became the first.

    NCCL's `wait` only blocks the task's stream. The host goes on, and hangs later in a call that waits for the device,
    where no exception can reach it. So every wait of the rank's tasks raises the error (`TaskGroup.fail`); if the
    process has not ended `GRACE_S` seconds later, `TaskGroup.on_fatal` ends it.
    """

    def __init__(self, tasks: TaskGroup, now: Callable[[], float] = time.monotonic):
        self.tasks, self.now = tasks, now
        self.streams: dict[Hashable, deque[Watched]] = defaultdict(deque)
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def watch(self, transfer: Transfer, what: str, stream: Hashable) -> None:
        """Watch an operation in the given stream of the rank."""
        with self.lock:
            self.streams[stream].append(Watched(transfer, what, self.tasks.current_name(), self.now()))

    def start(self) -> None:
        """Check every `CHECK_S` seconds, on a separate thread, until an operation is late."""
        self.thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (error := self.check()) is None:
            time.sleep(CHECK_S)
        self.tasks.fail(error)
        time.sleep(GRACE_S)
        self.tasks.on_fatal(error)

    def check(self) -> FabricError | None:
        """Forget finished operations; return the error of a late one."""
        now = self.now()
        with self.lock:
            for stream in self.streams.values():
                while stream and stream[0].transfer.is_completed():
                    stream.popleft()
                    if stream:
                        stream[0].since = now
                if stream and now - stream[0].since > self.tasks.timeout_s:
                    first = stream[0]
                    return timeout_error(self.tasks.rank, first.task, first.what, now - first.since)
        return None


class NcclWork(TorchWork):
    """`wait` makes the calling task's stream wait and returns; the watchdog enforces the time limit."""

    fabric: NcclFabric

    def _await(self, limit: float) -> None:
        self.work.wait()

    def watch(self, channel: int) -> NcclWork:
        self.fabric.watchdog.watch(self.work, self.what, (tuple(self.fabric.ranks), channel))
        return self


@dataclass(frozen=True)
class AllOf:
    """Several of torch's operations as one."""

    works: list[Any]

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self.works)


class Batch(NcclWork):
    """Sends and receives in one NCCL group, which complete together."""

    def __init__(self, fabric: NcclFabric):
        super().__init__(fabric, self, "", None)
        self.parts: list[Any] = []
        self.works: list[Any] = []  # torch's handles: one on NCCL

    def add(self, part: Callable[..., Any], flat: torch.Tensor, peer: int, what: str, channel: int) -> None:
        self.parts.append(dist.P2POp(part, flat, peer, self.fabric.groups[channel]))
        self.what = f"{self.what} with {what}" if self.what else what

    def begin(self, channel: int) -> None:
        self.works = self.fabric._start(self.what, lambda: dist.batch_isend_irecv(self.parts))
        self.watch(channel)

    def watch(self, channel: int) -> Batch:
        """Watch torch's operations, not the batch, which would keep its tensors alive until the next check."""
        self.fabric.watchdog.watch(AllOf(self.works), self.what, (tuple(self.fabric.ranks), channel))
        return self

    def _await(self, limit: float) -> None:
        for work in self.works:
            work.wait()


class NcclFabric(TorchFabric):
    """`TorchFabric` on GPUs, with gloo for the control plane.

    Every transfer is part of a batch, even a single one: outside of a batch torch creates a communicator for each pair
    of ranks at first use, and the order of first uses would matter.
    """

    library: ClassVar[str] = "nccl"
    capabilities = NCCL
    native_by_default = True
    patience = 2.0  # torch's own timeout ends the process without naming a peer, so the watchdog comes first

    def __init__(
        self, timeout_s: float = DEFAULT_TIMEOUT_S, ranks: Sequence[int] | None = None, tasks: TaskGroup | None = None,
        watchdog: Watchdog | None = None,
    ):  # fmt: skip
        super().__init__(self.library, timeout_s, ranks, tasks)
        self.batches: dict[tuple[int, int], Batch] = {}  # open, by thread and channel
        self.watchdog = watchdog or Watchdog(self.tasks)
        if watchdog is None:
            self.watchdog.start()
        if self.rank >= 0 and self.size > 2:  # the first operation of a communicator needs all its ranks
            for channel in (MAIN, BACKGROUND):
                self.barrier(channel)

    def _over(self, members: Sequence[int]) -> TorchFabric:
        return type(self)(self.timeout_s, members, self.tasks, self.watchdog)

    @property
    def device(self) -> torch.device:
        """The device of this rank's messages."""
        return torch.device("cuda", torch.cuda.current_device())

    # point to point
    def isend(self, tensor: torch.Tensor, to: int, tag: int = 0, channel: int = MAIN) -> Work:
        if channel == CONTROL:
            return super().isend(tensor, to, tag, channel)
        self.bytes_sent += tensor.nbytes
        return self._transfer(dist.isend, tensor.detach().contiguous(), to, "send to", channel)

    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work:
        if channel == CONTROL:
            return super().irecv(tensor, source, tag, channel)
        if source == ANY_SOURCE:
            raise FabricError(f"rank {self.rank}: receive from any rank: not supported by NCCL")
        return self._transfer(dist.irecv, tensor.detach(), source, "receive from", channel)

    def _transfer(self, part: Callable[..., Any], tensor: torch.Tensor, peer: int, how: str, channel: int) -> Work:
        if not tensor.numel():
            return DoneWork()  # empty messages are not sent
        if (batch := self.batches.get((threading.get_ident(), channel))) is None:
            with self.batch(channel):
                return self._transfer(part, tensor, peer, how, channel)
        peer = self.ranks[peer]
        batch.add(part, tensor.view(-1).view(torch.uint8), peer, f"{how} rank {peer} (channel {channel})", channel)
        return batch

    @contextmanager
    def batch(self, channel: int = MAIN) -> Iterator[None]:
        place = threading.get_ident(), channel
        batch = self.batches[place] = Batch(self)
        try:
            yield
        finally:
            del self.batches[place]
        if batch.parts:
            batch.begin(channel)

    # collectives
    def _collective(self, what: str, channel: int, begin: Callable[[], Any], buffers: Any) -> Work:
        return NcclWork(self, self._start(what, begin), what, buffers).watch(channel)

    def barrier(self, channel: int = MAIN) -> None:
        if channel == CONTROL:
            super().barrier(channel)
        elif self.size > 1:
            word = torch.zeros(1, device=self.device)
            begin = partial(dist.all_reduce, word, group=self.groups[channel], async_op=True)
            self._collective(f"barrier (channel {channel})", channel, begin, word).wait()

    def find_auto(self) -> Crossover:
        return Crossover(None, "not measured: NCCL's own allreduce moves vectors from GPU to GPU")
