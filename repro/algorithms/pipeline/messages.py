"""A rank's messages to and from the neighbouring stages, in both directions without blocking.

The plan determines all messages, so they have no header. A receive is posted only if its message is certain to be sent
before the run's next possible stop, so that no message is left on the network there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import torch

from repro.algorithms.pipeline.layout import Layout
from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, Op, Plan
from repro.fabric.base import Fabric, Task, Work
from repro.training.clock import Clock

TAGS = {FORWARD: 1, BACKWARD: 2}  # messages of a kind between two ranks are in the order of their minibatches


class Links:
    """The links of one rank. On a fabric without tags (NCCL) transfers to all peers run one after the other, so a
    receive that is posted early would block later sends. There each direction between two ranks gets a group of its
    own; the first message opens its connection."""

    def __init__(self, fabric: Fabric, layout: Layout, device: torch.device):
        """All ranks call this. device: of the messages."""
        self.fabric = fabric
        self.groups: dict[tuple[str, int], Fabric] = {}  # by kind and peer
        if "tags" in fabric.capabilities:
            return
        message = torch.zeros(1, device=device)
        for kind, source, to in message_directions(layout):  # in the same order on all ranks
            group = fabric.subgroup([source, to])
            if group is None:
                continue
            if fabric.rank == source:
                self.groups[kind, to] = group
                group.send(message, 1)
            else:
                self.groups[kind, source] = group
                group.recv(message, 0)

    def isend(self, kind: str, tensor: torch.Tensor, to: int) -> Work:
        if not self.groups:
            return self.fabric.isend(tensor, to, TAGS[kind])
        self.fabric.bytes_sent += tensor.nbytes
        return self.groups[kind, to].isend(tensor, 1)

    def irecv(self, kind: str, buffer: torch.Tensor, source: int) -> Work:
        if not self.groups:
            return self.fabric.irecv(buffer, source, TAGS[kind])
        return self.groups[kind, source].irecv(buffer, 0)


def message_directions(layout: Layout) -> Iterator[tuple[str, int, int]]:
    """(kind, sender, receiver) of every possible message, once each."""
    for stage in range(len(layout.stages) - 1):
        turns = range(math.lcm(layout.stages[stage].replicas, layout.stages[stage + 1].replicas))
        pairs = dict.fromkeys((layout.rank_of(stage, turn), layout.rank_of(stage + 1, turn)) for turn in turns)
        for before, behind in pairs:
            yield FORWARD, before, behind
            yield BACKWARD, behind, before


class Transfers:
    """Sends or receives in progress; `end_next` waits for the oldest.

    watched   a task waits for each transfer, so that it progresses while the main task computes; not needed on fabrics
              whose transfers progress by themselves (`Fabric.progresses`)
    clock     records how long watched transfers were in progress, as the rank's communication
    """

    def __init__(self, fabric: Fabric, name: str, watched: bool, clock: Clock | None = None):
        self.fabric, self.clock = fabric, clock
        self.under_way: deque[Work] = deque()
        self.task: Task | None = None
        if watched:
            self.begun, self.ended = fabric.queue(), fabric.queue()
            self.task = fabric.spawn(self._wait, name)

    def __len__(self) -> int:
        return len(self.under_way)

    def begin(self, work: Work) -> None:
        self.under_way.append(work)
        if self.task:
            self.begun.put((work, self.fabric.now()))

    def end_next(self) -> None:
        work = self.under_way.popleft()
        if self.task:
            self.ended.get(
                timeout=float("inf")
            )  # the task's `work.wait` has a time limit, and its error names the peer
        else:
            work.wait()

    def _wait(self) -> None:
        before = 0.0
        while (item := self.begun.get(timeout=float("inf"))) is not None:
            work, began = item
            work.wait()
            now = self.fabric.now()
            if self.clock:
                self.clock.note("communicate", max(began, before), now)
            self.ended.put(before := now)

    def close(self) -> None:
        if self.task:
            self.begun.put(None)
            self.task.join()


PREFETCH = 2  # receives posted ahead of the pass that needs the first of them


class Shape(NamedTuple):
    """The shape of a block's output, and of its gradient.

    kept: bytes that autograd keeps of the block's forward pass.
    """

    size: tuple[int, ...]
    dtype: torch.dtype
    kept: int = 0

    @property
    def nbytes(self) -> int:
        return torch.Size(self.size).numel() * self.dtype.itemsize


class Messages:
    """The messages of one rank, in buffers that are allocated if none is free and reused (section 3.5)."""

    def __init__(
        self, fabric: Fabric, clock: Clock, plan: Plan, rank: int, shapes: dict[str, Shape], device: torch.device
    ):
        """shapes: of the received messages, for each kind of pass that needs one. All ranks call this."""
        self.fabric, self.plan, self.shapes, self.device = fabric, plan, shapes, device
        self.stage, self.replica = plan.layout.place(rank)
        self.links = Links(fabric, plan.layout, device)
        self.free: dict[str, list[torch.Tensor]] = {kind: [] for kind in shapes}
        self.made = dict.fromkeys(shapes, 0)  # buffers of each kind
        self.waiting: dict[Op, torch.Tensor] = {}  # posted receives, in order
        self.arrived: dict[Op, torch.Tensor] = {}
        watched = bool(shapes) and not fabric.progresses
        self.receives = Transfers(fabric, "receive", watched)
        self.sends = Transfers(fabric, "send", watched, clock)

    def needed(self, op: Op) -> bool:
        """Whether a pass needs a message."""
        return op.kind in self.shapes

    def post(self, op: Op) -> None:
        """Start to receive a pass's input; called in the order of the passes."""
        neighbour = self.stage - 1 if op.kind == FORWARD else self.stage + 1
        source = self.plan.layout.rank_of(neighbour, self.plan.minibatch(self.stage, self.replica, op.k))
        buffer = self._buffer(op.kind)
        self.receives.begin(self.links.irecv(op.kind, buffer, source))
        self.waiting[op] = buffer

    def _buffer(self, kind: str) -> torch.Tensor:
        if self.free[kind]:
            return self.free[kind].pop()
        self.made[kind] += 1
        return torch.empty(self.shapes[kind].size, dtype=self.shapes[kind].dtype, device=self.device)

    def take(self, op: Op) -> torch.Tensor:
        """Wait for a pass's input; the caller owns it until `release`."""
        while op not in self.arrived:
            self._receive_next()
        return self.arrived.pop(op)

    def _receive_next(self) -> None:
        self.receives.end_next()
        op = next(iter(self.waiting))
        self.arrived[op] = self.waiting.pop(op)

    def release(self, kind: str, buffer: torch.Tensor) -> None:
        """Return a buffer of `take` for reuse."""
        self.free[kind].append(buffer)

    def send(self, kind: str, minibatch: int, tensor: torch.Tensor) -> None:
        """Start to send to the rank that needs the tensor for a pass of this kind."""
        neighbour = self.stage + 1 if kind == FORWARD else self.stage - 1
        self.sends.begin(self.links.isend(kind, tensor, self.plan.layout.rank_of(neighbour, minibatch)))

    def limit_sends(self, in_progress: int) -> None:
        """Wait for the oldest sends until at most `in_progress` are in progress."""
        while len(self.sends) > in_progress:
            self.sends.end_next()

    def settle(self) -> None:
        """Wait for all posted receives and all sends."""
        while self.waiting:
            self._receive_next()
        self.limit_sends(0)

    def close(self) -> None:
        self.receives.close()
        self.sends.close()

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all buffers."""
        return sum(self.made[kind] * shape.nbytes for kind, shape in self.shapes.items())
