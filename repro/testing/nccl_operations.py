"""Operations in the streams of `repro.testing.nccl`: sends, receives, batches, collectives, opened connections."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from repro.fabric.base import FabricError, Work
from repro.fabric.virtual.fabric import VirtualFabric
from repro.fabric.virtual.messages import VirtualWork

SEND, RECEIVE = "send to", "receive from"


@dataclass(eq=False)
class Part:
    """One message of an operation: a send to, or a receive from, a peer."""

    kind: str
    peer: int
    tensor: torch.Tensor
    peer_name: str  # with its rank in the run, for errors
    matched: bool = False  # with its counterpart

    def __str__(self) -> str:
        return f"{self.kind} {self.peer_name}"


@dataclass(eq=False)
class Collective:
    """A collective. name: what the ranks must agree on; store: takes all ranks' tensors, stores the result."""

    name: str
    tensor: torch.Tensor
    store: Callable[[list[torch.Tensor]], object]
    matched: bool = False

    def __str__(self) -> str:
        return self.name


class Operation(VirtualWork):
    """An entry of a rank's stream: a send, a receive, a batch of them, or a collective."""

    __slots__ = ("collective", "communicator", "left", "parts", "rank", "task")

    def __init__(self, fabric: VirtualFabric, communicator: Communicator, collective: Collective | None = None):
        super().__init__(fabric)
        self.rank, self.communicator, self.collective = fabric.rank, communicator, collective
        self.parts: list[Part] = []
        self.left = 0  # unfinished parts
        self.task = fabric.current_task()

    @property
    def what(self) -> str:
        return " with ".join(map(str, self.parts)) or str(self.collective)

    def __str__(self) -> str:
        streams = self.communicator.streams
        stream = streams[self.rank]
        text = f"{self.what} ({self.communicator.name})"
        if self not in stream:
            return text
        if stream[0] is not self:
            return f"{text}, behind {stream[0].what} in the stream"
        names = self.communicator.ranks
        peers = sorted({part.peer for part in self.parts if not part.matched}) or range(len(names))
        heads = [
            f"rank {names[peer]}'s first is {streams[peer][0].what if streams[peer] else 'none'}"
            for peer in peers
            if peer != self.rank
        ]
        return f"{text}, first in the stream, while {', '.join(heads)}"


class StartedWork(Work):
    """The handle of an operation, which can only be waited for."""

    def __init__(self, operation: Operation):
        self.operation = operation

    def wait(self, timeout: float | None = None) -> None:
        self.operation.wait(timeout)

    def done(self) -> bool:
        raise FabricError("fabric nccl cannot test a transfer (no capability 'test')")

    def cancel(self) -> None:
        raise FabricError("fabric nccl cannot cancel a transfer (no capability 'cancel')")


class Rendezvous(VirtualWork):
    """The opening of a connection: done when all its ranks have arrived."""

    __slots__ = ("arrived", "communicator", "needed")

    def __init__(self, fabric: VirtualFabric, communicator: Communicator, needed: int):
        super().__init__(fabric)
        self.communicator, self.needed = communicator, needed
        self.arrived: dict[int, Operation] = {}

    def __str__(self) -> str:
        arrived = [
            f"rank {self.communicator.ranks[rank]}: {operation.what}" for rank, operation in self.arrived.items()
        ]
        return f"the other ranks to open a connection ({self.communicator.name}; waiting: {', '.join(arrived)})"


@dataclass
class Communicator:
    """ranks: of the run. streams: index in `ranks` -> unfinished operations, of which only the oldest runs."""

    name: str
    ranks: tuple[int, ...]
    streams: dict[int, deque[Operation]] = field(default_factory=lambda: defaultdict(deque))
    rendezvous: dict[Any, Rendezvous] = field(default_factory=dict)
