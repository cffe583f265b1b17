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

    buffer: torch.Tensor  # (n,) its gradient, later the vector of the update
    updates: int  # made before its weights were read
    result: Any = None  # of its exchange; None: in progress


class PendingUpdates:
    """Iterations between the start of their gradient and their update, oldest first. Each is applied exactly once.

    buffers  (n,), for the gradients; as many as iterations may be in progress
    receive  waits for the result of the oldest exchange in progress, and times its phases
    apply    updates with an iteration's result and its staleness, the number of updates since its weights were read
    """

    def __init__(
        self, buffers: Sequence[torch.Tensor], receive: Callable[[], Any], apply: Callable[[Pending, int], None]
    ):
        self.buffers, self.pending = deque(buffers), deque[Pending]()
        self.receive, self.apply = receive, apply
        self.updates = 0

    def begin(self) -> torch.Tensor:
        """Start the next iteration; returns the buffer (n,) for its gradient."""
        self.pending.append(Pending(self.buffers.popleft(), self.updates))
        return self.pending[-1].buffer

    def apply_until(self, K: int) -> tuple[int, ...]:
        """Make the oldest updates until fewer than K are pending; returns their staleness."""
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
        """The state when settled; saved: copies a result as tensors, lists and tuples."""
        return {"updates": self.updates, "ready": [(update.updates, saved(update.result)) for update in self.pending]}

    def load_state_dict(self, state: dict[str, Any], loaded: Callable[[Any], Any]) -> None:
        """Restore a `state_dict`; loaded: the reverse of `saved`."""
        self.updates = state["updates"]
        for updates, result in state["ready"]:
            self.pending.append(Pending(self.buffers.popleft(), updates, loaded(result)))
