"""The torch.distributed fabric over NCCL: a GPU for each rank, ordered transfers without tags, a watchdog for hangs.

`repro.testing.nccl` checks on a CPU that a strategy follows NCCL's rules. Not yet run on GPUs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

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
)
from repro.fabric.collectives.auto import Crossover
from repro.fabric.real.threads import TaskGroup
from repro.fabric.real.torch_dist import TorchFabric, TorchWork
from repro.fabric.real.watchdog import Watchdog


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
