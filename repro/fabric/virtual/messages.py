"""Messages of the virtual fabric: mailboxes, sends and receives."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from repro.fabric.base import ANY_SOURCE, FabricError, Work
from repro.fabric.virtual.scheduler import Scheduler, VirtualTask


@dataclass(slots=True)
class Message:
    source: int
    key: tuple  # (group, channel, tag)
    payload: torch.Tensor | None  # contiguous; None: sent from the meta device, without contents
    nbytes: int


class Mailbox:
    """A rank's arrived messages and posted receives, each matched with the first of the others that fits.

    Both are indexed by source and key, because there may be thousands.
    """

    def __init__(self) -> None:
        self._count = 0  # numbers messages and receives in their order
        self._arrived: dict[tuple, OrderedDict[int, Message]] = {}  # key -> number -> message
        self._from: dict[tuple, list[int]] = {}  # (source, key) -> numbers of those messages
        self._posted: dict[tuple, list[Receive]] = {}  # (wanted source, key) -> receives

    def deliver(self, message: Message) -> None:
        key, source, posted = message.key, message.source, self._posted
        place, anyone = (source, key), (ANY_SOURCE, key)
        receives, others = posted.get(place), posted.get(anyone)
        if others and (not receives or others[0].number < receives[0].number):
            place, receives = anyone, others
        if not receives:
            self._count += 1
            self._arrived.setdefault(key, OrderedDict())[self._count] = message
            self._from.setdefault(place, []).append(self._count)
            return
        receive = receives.pop(0)
        if not receives:
            del posted[place]
        receive.complete(message)

    def post(self, receive: Receive) -> None:
        key, wanted = receive.key, receive.wanted
        arrived = self._arrived.get(key)
        if arrived and wanted == ANY_SOURCE:
            wanted = next(iter(arrived.values())).source  # the first arrival
        place = (wanted, key)
        numbers = self._from.get(place)
        if not arrived or not numbers:
            receive.number = self._count = self._count + 1
            self._posted.setdefault(place, []).append(receive)
            return
        message = arrived.pop(numbers.pop(0))
        if not numbers:
            del self._from[place]
        if not arrived:
            del self._arrived[key]
        receive.complete(message)

    def withdraw(self, receive: Receive) -> bool:
        """Withdraw a receive; False if a message has matched it."""
        place = (receive.wanted, receive.key)
        receives = self._posted.get(place, [])
        if receive not in receives:
            return False
        receives.remove(receive)
        if not receives:
            del self._posted[place]
        return True


class End(Protocol):
    """The part of a fabric that sends and receives need."""

    rank: int
    scheduler: Scheduler
    mailbox: Mailbox
    timeout_s: float | None


class VirtualWork(Work):
    """The base of sends and receives; `finish` wakes the waiting tasks. `str` describes the wait in errors."""

    __slots__ = ("error", "fabric", "finished", "waiters", "watchers")

    def __init__(self, fabric: End):
        self.fabric = fabric
        self.finished = False
        self.error: FabricError | None = None
        self.waiters: list[VirtualTask] | None = None
        self.watchers: list[Callable[[], None]] | None = None

    @abstractmethod
    def __str__(self) -> str: ...

    def wakes(self, task: VirtualTask) -> None:
        """Wake the task when this work is finished."""
        if self.waiters is None:
            self.waiters = [task]
        else:
            self.waiters.append(task)

    def then(self, call: Callable[[], None]) -> None:
        """Call the function when this work is finished and its waiting tasks are awake."""
        if self.watchers is None:
            self.watchers = [call]
        else:
            self.watchers.append(call)

    def finish(self) -> None:
        self.finished = True
        if self.waiters is not None:
            for task in self.waiters:
                self.fabric.scheduler.wake(task)
            self.waiters = None
        if self.watchers is not None:
            for call in self.watchers:
                call()
            self.watchers = None

    def wait(self, timeout: float | None = None) -> None:
        scheduler = self.fabric.scheduler
        scheduler.check()
        if not self.finished:
            limit = self.fabric.timeout_s if timeout is None else timeout
            scheduler.wait_until(self.done, self.wakes, self, limit)
        if self.error:
            raise self.error

    def done(self) -> bool:
        return self.finished

    def cancel(self) -> None:
        return None


class Send(VirtualWork):
    """A send, which is done when the last byte has left the sender's NIC."""

    __slots__ = ("key", "to")

    def __init__(self, fabric: End, to: int, key: tuple):
        super().__init__(fabric)
        self.to, self.key = to, key

    def __str__(self) -> str:
        return f"its message to rank {self.to} to leave (tag {self.key[2]}, channel {self.key[1]})"


class Receive(VirtualWork):
    __slots__ = ("buffer", "key", "number", "source", "wanted")

    def __init__(self, fabric: End, buffer: torch.Tensor, source: int, key: tuple):
        super().__init__(fabric)
        self.buffer, self.wanted, self.key = buffer, source, key
        self.source: int | None = None
        self.number = 0  # in the mailbox

    def __str__(self) -> str:
        peer = "any rank" if self.wanted == ANY_SOURCE else f"rank {self.wanted}"
        return f"a message from {peer} (tag {self.key[2]}, channel {self.key[1]})"

    def complete(self, message: Message) -> None:
        self.source, payload, buffer = message.source, message.payload, self.buffer
        if buffer.nbytes != message.nbytes:
            self.error = FabricError(
                f"rank {self.fabric.rank}: received {message.nbytes} bytes from rank {message.source} where "
                f"{buffer.nbytes} were expected (tag {self.key[2]}, channel {self.key[1]})"
            )
        elif payload is not None:
            if payload.dtype != buffer.dtype:
                payload = payload.view(-1).view(buffer.dtype)
            buffer.copy_(payload if payload.shape == buffer.shape else payload.view(buffer.shape))
        self.finish()

    def cancel(self) -> None:
        if self.fabric.mailbox.withdraw(self):
            self.finish()


class AllOf(VirtualWork):
    """Done when all of several works are done: a waiting task is woken once, not for each of them."""

    __slots__ = ("left", "open")

    def __init__(self, fabric: End, works: Sequence[Work]):
        super().__init__(fabric)
        self.open = [work for work in works if isinstance(work, VirtualWork) and not work.finished]
        self.left = len(self.open)
        self.finished = not self.left
        for work in self.open:
            work.then(self.one_less)

    def __str__(self) -> str:
        first = next(str(work) for work in self.open if not work.finished)
        return first if self.left == 1 else f"{first} and {self.left - 1} more"

    def one_less(self) -> None:
        self.left -= 1
        if not self.left:
            self.open.clear()
            self.finish()
