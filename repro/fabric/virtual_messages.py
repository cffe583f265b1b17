"""Messages of the virtual fabric: mailboxes, and sends and receives under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from repro.fabric.base import ANY_SOURCE, FabricError, Work
from repro.fabric.scheduler import VirtualTask

if TYPE_CHECKING:
    from repro.fabric.virtual import VirtualFabric


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
