"""The virtual fabric: all ranks as threads of one process, in deterministic virtual time."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from repro.fabric import collectives
from repro.fabric.base import (
    ANY_SOURCE,
    MAIN,
    DoneWork,
    Event,
    Fabric,
    FabricError,
    Queue,
    Task,
    Work,
)
from repro.fabric.links import Links, Network
from repro.fabric.scheduler import Scheduler, VirtualTask
from repro.timing.costs import REAL_TIME, Costs


class World:
    """What all ranks of one virtual run share: the scheduler, the links, the mailboxes."""

    def __init__(self, size: int, network: Network):
        self.size = size
        self.scheduler = Scheduler()
        self.links = Links(self.scheduler, network, size)
        self.mailboxes = [Mailbox() for _ in range(size)]
        self.meetings: dict[Any, Meeting] = defaultdict(Meeting)


@dataclass
class Message:
    source: int
    key: tuple  # (group, channel, tag)
    payload: torch.Tensor


class Mailbox:
    """One rank's arrived messages and posted receives, each in order."""

    def __init__(self) -> None:
        self.arrived: list[Message] = []
        self.posted: list[Receive] = []

    def deliver(self, message: Message) -> None:
        for receive in self.posted:
            if receive.matches(message):
                self.posted.remove(receive)
                receive.complete(message)
                return
        self.arrived.append(message)

    def post(self, receive: Receive) -> None:
        for message in self.arrived:
            if receive.matches(message):
                self.arrived.remove(message)
                receive.complete(message)
                return
        self.posted.append(receive)


@dataclass
class Meeting:
    """Ranks that have come to the present `exchange`, and what they brought."""

    brought: dict[int, Any] = field(default_factory=dict)
    waiting: list[VirtualTask] = field(default_factory=list)


class VirtualWork(Work):
    """Base of sends and receives: whoever waits is woken by `finish`."""

    def __init__(self, fabric: VirtualFabric, what: str):
        self.fabric, self.what = fabric, what
        self.finished = False
        self.error: FabricError | None = None
        self.waiters: list[VirtualTask] = []

    def finish(self) -> None:
        self.finished = True
        for task in self.waiters:
            self.fabric.scheduler.wake(task)
        self.waiters.clear()

    def wait(self, timeout: float | None = None) -> None:
        self.fabric.scheduler.check()
        limit = self.fabric.timeout_s if timeout is None else timeout
        self.fabric.scheduler.wait_until(self.done, self.waiters.append, self.what, limit)
        if self.error:
            raise self.error

    def done(self) -> bool:
        return self.finished

    def cancel(self) -> None:
        return None


class Receive(VirtualWork):
    def __init__(self, fabric: VirtualFabric, buffer: torch.Tensor, source: int, key: tuple):
        peer = "any rank" if source == ANY_SOURCE else f"rank {source}"
        super().__init__(fabric, f"a message from {peer} (tag {key[2]}, channel {key[1]})")
        self.buffer, self.wanted, self.key = buffer, source, key

    def matches(self, message: Message) -> bool:
        return message.key == self.key and self.wanted in (ANY_SOURCE, message.source)

    def complete(self, message: Message) -> None:
        self.source, payload = message.source, message.payload
        expected, found = nbytes(self.buffer), nbytes(payload)
        if expected != found:
            self.error = FabricError(
                f"rank {self.fabric.rank}: received {found} bytes from rank {message.source} where {expected} were "
                f"expected (tag {self.key[2]}, channel {self.key[1]})"
            )
        elif payload.device.type != "meta":
            self.buffer.copy_(payload.view(self.buffer.dtype).view(self.buffer.shape))
        self.finish()

    def cancel(self) -> None:
        posted = self.fabric.world.mailboxes[self.fabric.global_rank(self.fabric.rank)].posted
        if self in posted:
            posted.remove(self)
            self.finish()


def nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class VirtualTaskHandle(Task):
    def __init__(self, fabric: VirtualFabric, task: VirtualTask):
        self.fabric, self.task, self.name = fabric, task, task.name

    def join(self, timeout: float | None = None) -> Any:
        what = f"the end of task {self.name}"
        self.fabric.scheduler.wait_until(lambda: self.task.finished, self.task.joiners.append, what, timeout)
        if self.task.error:
            raise self.task.error
        return self.task.result

    def cancel(self) -> None:
        self.task.cancelled = True
        self.fabric.scheduler.wake(self.task)


class VirtualEvent(Event):
    def __init__(self, scheduler: Scheduler):
        self.scheduler, self.flag = scheduler, False
        self.waiters: list[VirtualTask] = []

    def set(self) -> None:
        self.flag = True
        for task in self.waiters:
            self.scheduler.wake(task)
        self.waiters.clear()

    def clear(self) -> None:
        self.flag = False

    def is_set(self) -> bool:
        return self.flag

    def wait(self, timeout: float | None = None) -> None:
        self.scheduler.wait_until(self.is_set, self.waiters.append, "an event", timeout)


class VirtualQueue(Queue):
    def __init__(self, scheduler: Scheduler):
        self.items: deque = deque()
        self.scheduler = scheduler
        self.waiters: list[VirtualTask] = []

    def put(self, item: Any) -> None:
        self.items.append(item)
        for task in self.waiters:
            self.scheduler.wake(task)
        self.waiters.clear()

    def get(self, timeout: float | None = None) -> Any:
        self.scheduler.check()
        self.scheduler.wait_until(lambda: bool(self.items), self.waiters.append, "an item of a queue", timeout)
        return self.items.popleft()

    def __len__(self) -> int:
        return len(self.items)


class VirtualLock:
    """Mutual exclusion between tasks of one rank, first come first served."""

    def __init__(self, scheduler: Scheduler, what: str = "a lock"):
        self.scheduler, self.what = scheduler, what
        self.holder: VirtualTask | None = None
        self.waiters: deque[VirtualTask] = deque()

    def __enter__(self) -> VirtualLock:
        me = self.scheduler.current
        if self.holder is not None or self.waiters:
            self.waiters.append(me)
            try:
                while self.holder is not me:  # handed over by __exit__
                    self.scheduler.block(self.what)
            except BaseException:  # cancelled, or the run has failed: leave the line, or pass on what was handed over
                if self.holder is me:
                    self.__exit__()
                else:
                    self.waiters.remove(me)
                raise
        self.holder = me
        return self

    def __exit__(self, *_: object) -> None:
        self.holder = self.waiters.popleft() if self.waiters else None
        if self.holder is not None:
            self.scheduler.wake(self.holder)


class VirtualFabric(Fabric):
    """One rank's end of a `World`; all methods are called by that rank's tasks."""

    name = "virtual"
    capabilities = frozenset({"threads", "tags", "any_source", "test", "cancel"})

    def __init__(
        self, world: World, ranks: Sequence[int], rank: int, costs: Costs, timeout_s: float | None, group: int = 0
    ):
        self.world, self.ranks, self.rank, self.size = world, tuple(ranks), rank, len(ranks)
        self.scheduler, self.costs, self.timeout_s, self.group = world.scheduler, costs, timeout_s, group
        self.bytes_sent = 0
        self._resources: dict[str, VirtualLock] = {}
        self._subgroups = 0
        self._exchanges = 0

    def global_rank(self, rank: int) -> int:
        return self.ranks[rank]

    # time
    def now(self) -> float:
        return self.scheduler.current.now

    def sleep(self, seconds: float) -> None:
        self.scheduler.advance(seconds)

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
        payload = tensor.detach().contiguous().view(-1).view(torch.uint8)
        if payload.device.type != "meta":
            payload = payload.clone()
        message = Message(self.rank, (self.group, channel, tag), payload)
        target = self.global_rank(to)
        work = VirtualWork(self, f"its message to rank {to} to leave (tag {tag}, channel {channel})")
        self.bytes_sent += nbytes(payload)
        leaves = self.world.links.transmit(
            self.global_rank(self.rank), target, nbytes(payload), lambda: self.world.mailboxes[target].deliver(message)
        )
        self.scheduler.at(leaves, self.global_rank(self.rank), work.finish)
        return work

    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work:
        receive = Receive(self, tensor, source, (self.group, channel, tag))
        self.world.mailboxes[self.global_rank(self.rank)].post(receive)
        return receive

    def wait_any(self, works: Sequence[Work], timeout: float | None = None) -> int:
        self.scheduler.check()

        def wait_for_all(task: VirtualTask) -> None:
            for work in works:
                work.waiters.append(task)

        what = " or ".join(work.what for work in works)
        limit = self.timeout_s if timeout is None else timeout
        self.scheduler.wait_until(lambda: any(work.done() for work in works), wait_for_all, what, limit)
        index = next(index for index, work in enumerate(works) if work.done())
        works[index].wait()
        return index

    # collectives: the textbook algorithms, on send and receive
    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        collectives.ring_allreduce(self, tensor, channel)
        return DoneWork()

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
        members = [self.global_rank(r) for r in ranks]
        fabric = VirtualFabric(self.world, members, list(ranks).index(self.rank), self.costs, self.timeout_s, group)
        fabric._resources = self._resources  # one device and one host a rank, whichever group uses them
        return fabric

    def spawn(self, fn: Callable[[], Any], name: str = "background") -> Task:
        return VirtualTaskHandle(self, self.scheduler.add(self.global_rank(self.rank), name, fn, self.now()))

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
        meeting.brought[self.rank] = obj
        if len(meeting.brought) < self.size:
            what = f"all ranks to come to exchange {self._exchanges}"
            self.scheduler.wait_until(lambda: len(meeting.brought) == self.size, meeting.waiting.append, what)
        else:
            del self.world.meetings[(self.group, self._exchanges)]
            for task in meeting.waiting:
                self.scheduler.wake(task)
        return [meeting.brought[rank] for rank in range(self.size)]

    def close(self) -> None:
        return None


def run(
    size: int,
    main: Callable[[VirtualFabric], Any],
    network: Network,
    costs: Costs = REAL_TIME,
    timeout_s: float | None = None,
) -> list[Any]:
    """Run `main(fabric)` on `size` virtual ranks and return what each returned.

    Raises the first rank's own error if one failed, and FabricError on a deadlock or, with `timeout_s` (virtual
    seconds), when a wait takes longer.
    """
    world = World(size, network)
    fabrics = [VirtualFabric(world, range(size), rank, costs, timeout_s) for rank in range(size)]
    tasks = [world.scheduler.add(rank, "main", lambda f=fabric: main(f)) for rank, fabric in enumerate(fabrics)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # every thread would else have a pool of its own, and sums would depend on their size
    try:
        world.scheduler.run()
    finally:
        torch.set_num_threads(threads)
    own = [task.error for task in world.scheduler.tasks if task.error and task.error is not world.scheduler.failure]
    if own:
        raise own[0]
    if world.scheduler.failure:
        raise world.scheduler.failure
    return [task.result for task in tasks]


__all__ = ["Network", "VirtualFabric", "run"]
