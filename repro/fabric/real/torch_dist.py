"""The torch.distributed fabric over gloo, for CPUs or ranks that share GPUs, started by torchrun or srun."""

from __future__ import annotations

import datetime
import pickle
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from repro.fabric.base import ANY_SOURCE, CHANNELS, CONTROL, DEFAULT_TIMEOUT_S, GLOO, MAIN, Fabric, FabricError, Work
from repro.fabric.collectives import dense as collectives
from repro.fabric.costs import REAL_TIME
from repro.fabric.real.threads import LONGEST_WAIT_S, RealTimeFabric, TaskGroup, find_missing_ranks

ROOT_FIRST_S = 1.0  # delay of the other ranks' errors, so that rank 0, which knows the missing rank, reports it first
LOST = re.compile(r"gloo|timed? ?out|connection|peer|socket", re.IGNORECASE)  # gloo has no exception type of its own


class TorchWork(Work):
    def __init__(
        self, fabric: TorchFabric, work: Any, what: str, buffers: Any, finish: Any = None, wanted: int | None = None,
        addressed: bool = True,
    ):  # fmt: skip
        """buffers: kept alive during the transfer. finish: called at its end. wanted: the source of a receive.
        addressed: False for a wait without a peer, whose error names the ranks that do not respond."""
        self.fabric, self.work, self.what, self.buffers, self.finish = fabric, work, what, buffers, finish
        self.wanted, self.addressed, self.finished = wanted, addressed, False

    def wait(self, timeout: float | None = None) -> None:
        if self.finished:
            return
        fabric = self.fabric
        fabric.tasks.check()
        limit = fabric.timeout_s if timeout is None else timeout
        try:
            with fabric.tasks.waiting(self.what):
                self._await(limit)
        except RuntimeError as error:
            fabric.tasks.check()
            reason = str(error).splitlines()[0]
            who = f"rank {fabric.rank} ({fabric.current_task()})"
            missing = "" if self.addressed else find_missing_ranks(fabric)
            raise FabricError(f"{who}: {self.what}: nothing after {limit:g} s or lost ({reason}){missing}") from None
        self.finished = True
        if self.wanted is not None:
            any_source = self.wanted == ANY_SOURCE
            self.source = fabric.local_rank(self.work._source_rank()) if any_source else self.wanted
        if self.finish:
            self.finish()

    def _await(self, limit: float) -> None:
        """Wait for the operation; RuntimeError after `limit` seconds."""
        self.work.wait(datetime.timedelta(seconds=min(limit, LONGEST_WAIT_S)))

    def done(self) -> bool:
        raise FabricError(f"fabric torch ({self.fabric.backend}) cannot test a transfer (no capability 'test')")

    def cancel(self) -> None:
        raise FabricError(f"fabric torch ({self.fabric.backend}) cannot cancel a transfer (no capability 'cancel')")


class TorchFabric(RealTimeFabric):
    """All ranks of torch.distributed or a part of them, with a process group for each channel."""

    name = "torch"
    capabilities = GLOO
    progresses = True
    patience = 1.0  # the timeout of the library's waits, as a multiple of ours

    def __init__(
        self,
        backend: str = "gloo",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        ranks: Sequence[int] | None = None,
        tasks: TaskGroup | None = None,
    ):
        limit = datetime.timedelta(seconds=self.patience * timeout_s)
        if not dist.is_initialized():
            dist.init_process_group(backend, timeout=limit)
        self.backend = dist.get_backend()
        self.ranks = list(range(dist.get_world_size())) if ranks is None else list(ranks)
        self.groups = [dist.new_group(self.ranks, timeout=limit) for _ in range(CHANNELS - 1)]
        # the control plane is always on the host
        self.groups.insert(CONTROL, dist.new_group(self.ranks, timeout=limit, backend="gloo"))
        # torch sorts a group's ranks: the position of each of ours in what it gathers
        self.places = [sorted(self.ranks).index(rank) for rank in self.ranks]
        self.size = len(self.ranks)
        self.rank = self.local_rank(dist.get_rank())
        self.timeout_s, self.costs, self.bytes_sent = timeout_s, REAL_TIME, 0
        self.tasks = tasks or TaskGroup(self.rank, timeout_s)  # shared by all groups of a rank
        if tasks is None:
            self.tasks.missing = lambda: find_missing_ranks(self)

    def local_rank(self, world_rank: int) -> int:
        return self.ranks.index(world_rank) if world_rank in self.ranks else -1

    def process_group(self, channel: int = MAIN) -> Any:
        """torch's process group of this fabric's ranks, for libraries that use it directly."""
        return self.groups[channel]

    @contextmanager
    def watched(self, what: str) -> Iterator[None]:
        """A context for a library's use of `process_group`: a lost rank or a timeout becomes a FabricError."""
        try:
            yield
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            if not isinstance(error, dist.DistError) and not LOST.search(reason):
                raise
            who = f"rank {self.rank} ({self.current_task()})"
            late = f"nothing after {self.timeout_s:g} s or lost ({reason})"
            raise FabricError(f"{who}: {what}: {late}{find_missing_ranks(self)}") from None

    def _start(self, what: str, begin: Any) -> Any:
        try:
            return begin()
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise FabricError(f"rank {self.rank} ({self.current_task()}): {what}: lost ({reason})") from None

    # point to point: gloo moves host bytes
    def isend(self, tensor: torch.Tensor, to: int, tag: int = 0, channel: int = MAIN) -> Work:
        data = self.tasks.streams.outgoing(tensor)
        size = data.numel() if channel != CONTROL else 0
        self.bytes_sent += size  # no bytecode between load and store lets another thread in
        what = f"send to rank {to} (tag {tag}, channel {channel})"
        work = self._start(what, lambda: dist.isend(data, self.ranks[to], self.groups[channel], tag))
        return TorchWork(self, work, what, data)

    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work:
        data, finish = self.tasks.streams.incoming(tensor)
        any_source = source == ANY_SOURCE
        peer = "any rank" if any_source else f"rank {source}"
        what = f"receive from {peer} (tag {tag}, channel {channel})"
        origin = None if any_source else self.ranks[source]
        work = self._start(what, lambda: dist.irecv(data, origin, self.groups[channel], tag))
        return TorchWork(self, work, what, data, finish, source, not any_source)

    # collectives
    def _collective(self, what: str, channel: int, begin: Callable[[], Any], buffers: Any) -> Work:
        return TorchWork(self, self._start(what, begin), what, buffers, addressed=False)

    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        self.bytes_sent += 2 * (self.size - 1) * tensor.nbytes // self.size  # a ring's share
        group = self.groups[channel]
        begin = partial(dist.all_reduce, tensor, group=group, async_op=True)
        return self._collective(f"allreduce (channel {channel})", channel, begin, tensor)

    def broadcast(self, tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
        what = f"broadcast from rank {root} (channel {channel})"
        flat = tensor.detach().view(-1)
        begin = partial(dist.broadcast, flat, self.ranks[root], self.groups[channel], async_op=True)
        self._collective(what, channel, begin, flat).wait()
        if self.rank == root:
            self.bytes_sent += (self.size - 1) * flat.nbytes  # charged to the root

    def allgather(self, tensor: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
        what = f"allgather (channel {channel})"
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        begin = partial(dist.all_gather, gathered, tensor, self.groups[channel], async_op=True)
        self._collective(what, channel, begin, gathered).wait()
        self.bytes_sent += (self.size - 1) * tensor.nbytes
        return [gathered[place] for place in self.places]

    def barrier(self, channel: int = MAIN) -> None:
        if self.size > 1:
            collectives.dissemination_barrier(self, channel)

    # groups, control plane, end
    def subgroup(self, ranks: Sequence[int]) -> Fabric | None:
        members = [self.ranks[rank] for rank in ranks]
        if self.size < dist.get_world_size():  # torch numbers its groups, so all ranks have to create them
            raise FabricError("fabric torch cannot split a subgroup: make subgroups of the whole fabric, on all ranks")
        fabric = self._over(members)  # every rank takes part in creating the groups
        return fabric if self.rank in ranks else None

    def _over(self, members: Sequence[int]) -> TorchFabric:
        return TorchFabric(self.backend, self.timeout_s, members, self.tasks)

    def exchange(self, obj: Any) -> list[Any]:
        # by messages through rank 0, because its waits name a missing rank; torch's collectives do not
        if self.rank:
            try:
                self._send_object(obj, 0)
                return self._receive_object(0)
            except FabricError:
                time.sleep(ROOT_FIRST_S)
                raise
        everyone = [obj, *map(self._receive_object, range(1, self.size))]
        for rank in range(1, self.size):
            self._send_object(everyone, rank)
        return everyone

    def _send_object(self, obj: Any, to: int) -> None:
        data = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)
        for message in (torch.tensor([data.numel()]), data):
            self.isend(message, to, 0, CONTROL).wait(self._patience_s())

    def _receive_object(self, source: int) -> Any:
        length = torch.zeros(1, dtype=torch.int64)
        self.irecv(length, source, 0, CONTROL).wait(self._patience_s())
        data = torch.empty(int(length), dtype=torch.uint8)
        self.irecv(data, source, 0, CONTROL).wait(self._patience_s())
        return pickle.loads(data.numpy().tobytes())

    def _patience_s(self) -> float:
        """Longer on the ranks that wait for rank 0, which knows the missing rank and so times out first."""
        return self.timeout_s * (2 if self.rank else 1)

    def close(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
