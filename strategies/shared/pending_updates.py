"""The pipeline of iterations between their gradients and their updates (Pipe-SGD Algorithm 1, Figure 1 (c))."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Pending:
    """An iteration from its gradient to its update."""

    buffer: torch.Tensor  # (n,) its gradient, later what the update uses
    updates: int  # made before its weights were read
    result: Any = None  # of its exchange; None while that is under way


class PendingUpdates:
    """Iterations that have begun and whose updates were not made yet, oldest first. Each is applied exactly once.

    buffers  (n,), as many as there may be iterations at once: the gradient of each needs one of its own
    receive  waits for the result of the oldest exchange under way, in phases of its own
    apply    makes the update of an iteration whose result is there; given also its staleness: how many updates were
             made since its weights were read
    """

    def __init__(
        self,
        buffers: Sequence[torch.Tensor],
        receive: Callable[[], Any],
        apply: Callable[[Pending, int], None],
    ):
        self.buffers, self.pending = deque(buffers), deque[Pending]()
        self.receive, self.apply = receive, apply
        self.updates = 0

    def begin(self) -> torch.Tensor:
        """Admit the next iteration; the buffer (n,) for its gradient."""
        self.pending.append(Pending(self.buffers.popleft(), self.updates))
        return self.pending[-1].buffer

    def apply_until(self, K: int) -> tuple[int, ...]:
        """Make the oldest updates until fewer than K are pending; the staleness of each."""
        staleness = []
        while len(self.pending) >= K:
            self._complete(self.pending[0])
            oldest = self.pending.popleft()
            staleness.append(self.updates - oldest.updates)
            self.apply(oldest, staleness[-1])
            self.updates += 1
            self.buffers.append(oldest.buffer)
        return tuple(staleness)

    def settle(self) -> None:
        """Wait for all results, without using them."""
        for pending in self.pending:
            self._complete(pending)

    def drain(self) -> None:
        """Make all updates."""
        self.apply_until(1)

    def _complete(self, pending: Pending) -> None:
        if pending.result is None:
            pending.result = self.receive()

    def state_dict(self, saved: Callable[[Any], Any]) -> dict[str, Any]:
        """Called when settled; saved: a copy of a result in tensors, lists and tuples."""
        return {"updates": self.updates, "ready": [(one.updates, saved(one.result)) for one in self.pending]}

    def load_state_dict(self, state: dict[str, Any], loaded: Callable[[Any], Any]) -> None:
        """Take up where `state_dict` was called; loaded: the reverse of `saved`."""
        self.updates = state["updates"]
        for updates, result in state["ready"]:
            self.pending.append(Pending(self.buffers.popleft(), updates, loaded(result)))
