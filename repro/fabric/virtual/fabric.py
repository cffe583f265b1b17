"""The virtual fabric: all ranks and their tasks in one thread, in deterministic virtual time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from repro.fabric.base import CONTROL, MAIN, DoneWork, Event, Fabric, Queue, Task, Work
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.algorithms import FabricWithAlgorithms
from repro.fabric.costs import REAL_TIME, Costs
from repro.fabric.virtual.fair_links import FairLinks
from repro.fabric.virtual.links import CongestedLinks, Links
from repro.fabric.virtual.messages import AllOf, Mailbox, Message, Receive, Send, VirtualWork
from repro.fabric.virtual.network import Network
from repro.fabric.virtual.ring_fast_path import Ring, RingFastPath, bytes_sent
from repro.fabric.virtual.scheduler import Scheduler, VirtualTask
from repro.fabric.virtual.tasks import VirtualEvent, VirtualLock, VirtualQueue, VirtualTaskHandle


class World:
    """The state that all ranks of a virtual run share: the scheduler, the links, the mailboxes."""

    def __init__(self, size: int, network: Network):
        self.size, self.network = size, network
        self.scheduler = Scheduler()
        kind = FairLinks if network.fair else CongestedLinks if network.congestion else Links
        self.links = kind(self.scheduler, network, size)
        self.ring_path = RingFastPath(self.scheduler, self.links, size)
        self.mailboxes = [Mailbox() for _ in range(size)]
        self.meetings: dict[Any, Meeting] = defaultdict(Meeting)


@dataclass
class Meeting:
    """The ranks that have reached an `exchange`, and their objects."""

    objects: dict[int, Any] = field(default_factory=dict)
    waiting: list[VirtualTask] = field(default_factory=list)


class VirtualFabric(FabricWithAlgorithms):
    """A rank's interface to a `World`; only tasks of that rank call its methods."""

    name = "virtual"
    capabilities = frozenset({"threads", "tags", "any_source", "test", "cancel", "sizes"})

    def __init__(
        self, world: World, ranks: Sequence[int], rank: int, costs: Costs, timeout_s: float | None, group: Hashable = 0
    ):
        self.world, self.ranks, self.rank, self.size = world, tuple(ranks), rank, len(ranks)
        self.scheduler, self.costs, self.timeout_s, self.group = world.scheduler, costs, timeout_s, group
        self.mailbox = world.mailboxes[self.ranks[rank]]
        self.bytes_sent = 0
        self.bandwidth_Bps = 1 / world.network.beta if world.network.beta else None
        self._resources: dict[str, VirtualLock] = {}
        self._subgroups = 0
        self._exchanges = 0

    # time
    def now(self) -> float:
        return self.scheduler.current.now

    def sleep(self, seconds: float) -> None:
        self.scheduler.advance(seconds)

    def state_dict(self) -> dict[str, Any]:
        """The rank's time: ranks are apart in time, on which the order of messages depends. (In real time all ranks
        continue together.)"""
        return {"now": self.now()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["now"] > self.now():
            self.scheduler.advance_to(state["now"])

    @contextmanager
    def compute(self, seconds: float | None = None, resource: str | None = "device") -> Iterator[None]:
        if resource is None:
            yield
            self.scheduler.advance(seconds or 0.0)
            return
        lock = self._resources.setdefault(resource, VirtualLock(self.scheduler, f"the {resource} of rank {self.rank}"))
        with lock:
            yield
            if seconds:
                self.scheduler.advance(seconds)

    # point to point
    def isend(self, tensor: torch.Tensor, to: int, tag: int = 0, channel: int = MAIN) -> Work:
        if self.world.ring_path.arrived:
            self.world.ring_path.flush()
        payload = None
        if not tensor.is_meta:
            payload = tensor.detach() if tensor.requires_grad else tensor
            payload = payload.clone(memory_format=torch.contiguous_format)
        message = Message(self.rank, (self.group, channel, tag), payload, tensor.nbytes)
        source, target = self.ranks[self.rank], self.ranks[to]
        work = Send(self, to, message.key)
        if channel != CONTROL:
            self.bytes_sent += message.nbytes
        deliver = partial(self.world.mailboxes[target].deliver, message)
        self.world.links.transmit(source, target, message.nbytes, deliver, work.finish, message.key)
        return work

    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work:
        receive = Receive(self, tensor, source, (self.group, channel, tag))
        self.mailbox.post(receive)
        return receive

    def wait_any(self, works: Sequence[Work], timeout: float | None = None) -> int:
        self.scheduler.check()
        waiting = [work for work in works if isinstance(work, VirtualWork)]

        def wait_for_all(task: VirtualTask) -> None:
            for work in waiting:
                work.wakes(task)

        what = " or ".join(map(str, waiting))
        limit = self.timeout_s if timeout is None else timeout
        self.scheduler.wait_until(lambda: any(work.done() for work in works), wait_for_all, what, limit)
        index = next(index for index, work in enumerate(works) if work.done())
        works[index].wait()
        return index

    def wait_all(self, works: Sequence[Work], timeout: float | None = None) -> None:
        AllOf(self, works).wait(timeout)
        for work in works:
            work.wait()  # finished; raises its error, if any

    # collectives: textbook algorithms on send and receive
    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        if not self._ring_at_once(tensor, channel):
            collectives.ring_allreduce(self, tensor, channel)
        return DoneWork()

    def allreduce(
        self, tensor: torch.Tensor, op: str = "sum", channel: int = MAIN, async_: bool = False, algorithm: str = "auto"
    ) -> Work:
        return super().allreduce(tensor, op, channel, async_, "auto" if algorithm == "ring" else algorithm)

    def _ring_at_once(self, tensor: torch.Tensor, channel: int) -> bool:
        """Run this ring allreduce of all ranks by the fast path, if possible; returns whether it did."""
        if not tensor.is_meta or self.group != 0 or self.timeout_s is not None:
            return False
        ring = Ring(tensor.numel(), tensor.element_size(), channel, self.costs)
        if not self.world.ring_path.ring(ring, self.rank):
            return False
        if channel != CONTROL:
            self.bytes_sent += bytes_sent(ring, self.rank, self.size)
        return True

    def broadcast(self, tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
        collectives.binomial_broadcast(self, tensor, root, channel)

    def allgather(self, tensor: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
        return collectives.ring_allgather(self, tensor, channel)

    def barrier(self, channel: int = MAIN) -> None:
        collectives.dissemination_barrier(self, channel)

    # groups and tasks
    def subgroup(self, ranks: Sequence[int]) -> Fabric | None:
        self._subgroups += 1
        if self.rank not in ranks:
            return None
        group = (self.group, self._subgroups)
        members = [self.ranks[rank] for rank in ranks]
        fabric = type(self)(self.world, members, list(ranks).index(self.rank), self.costs, self.timeout_s, group)
        fabric._resources = self._resources  # all groups of a rank share its device and host
        return fabric

    def spawn(self, fn: Callable[[], Any], name: str = "background") -> Task:
        if self.world.ring_path.arrived:
            self.world.ring_path.flush()
        return VirtualTaskHandle(self.scheduler, self.scheduler.add(self.ranks[self.rank], name, fn, self.now()))

    def event(self) -> Event:
        return VirtualEvent(self.scheduler)

    def queue(self) -> Queue:
        return VirtualQueue(self.scheduler)

    def lock(self) -> VirtualLock:
        return VirtualLock(self.scheduler)

    def current_task(self) -> str:
        return self.scheduler.current.name

    def exchange(self, obj: Any) -> list[Any]:
        self._exchanges += 1
        meeting = self.world.meetings[(self.group, self._exchanges)]
        meeting.objects[self.rank] = obj
        if len(meeting.objects) < self.size:
            what = f"all ranks to reach exchange {self._exchanges}"
            self.scheduler.wait_until(lambda: len(meeting.objects) == self.size, meeting.waiting.append, what)
        else:
            del self.world.meetings[(self.group, self._exchanges)]
            for task in meeting.waiting:
                self.scheduler.wake(task)
        return [meeting.objects[rank] for rank in range(self.size)]

    def close(self) -> None:
        return None


def run(
    size: int, main: Callable[[Any], Any], network: Network, costs: Costs = REAL_TIME, timeout_s: float | None = None,
    kind: type[VirtualFabric] = VirtualFabric,
) -> list[Any]:  # fmt: skip
    """Run `main(fabric)` on `size` virtual ranks, with fabrics of class `kind`; return each rank's result.

    Raises a failed rank's own error, and FabricError on a deadlock or on a wait of more than `timeout_s` virtual
    seconds.
    """
    world = World(size, network)
    fabrics = [kind(world, range(size), rank, costs, timeout_s) for rank in range(size)]
    tasks = [world.scheduler.add(rank, "main", partial(main, fabric)) for rank, fabric in enumerate(fabrics)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums must not depend on the number of cores
    try:
        world.scheduler.run()
    finally:
        torch.set_num_threads(threads)
    errors = [task.error for task in world.scheduler.tasks if task.error and task.error is not world.scheduler.failure]
    if errors:
        raise errors[0]
    if world.scheduler.failure:
        raise world.scheduler.failure
    return [task.result for task in tasks]


__all__ = ["Network", "VirtualFabric", "run"]
