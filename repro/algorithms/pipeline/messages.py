"""A rank's messages to and from the neighbouring stages, in both directions without blocking.

The plan determines all messages, so they have no header. A receive is posted only if its message is certain to be sent
before the run's next possible stop, so that no message is left on the network there.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from repro.algorithms.pipeline.links import Links
from repro.algorithms.pipeline.passes import FORWARD, Op, Plan
from repro.algorithms.pipeline.transfers import Transfers
from repro.fabric.base import Fabric
from repro.training.clock import Clock

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
