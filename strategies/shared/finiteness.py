"""A check that received gradients are finite, without synchronising a GPU."""

from __future__ import annotations

from collections import deque

from repro.fabric.real import streams
from repro.fabric.real.streams import Fetched
from repro.fabric.sparse.gradients import Sparse


class Finiteness:
    """Checks gradients in the order of steps: on a CPU before the update, on a GPU when its flags have reached the
    host, some steps later, at the latest at the next stop of the run. (The flags change no weight.)"""

    def __init__(self, names: list[str]):
        """names: of the parameters that `Sparse.flagged` counts."""
        self.names = names
        self.pending: deque[tuple[int, Fetched]] = deque()  # (step, flags)

    def watch(self, part: Sparse, step: int) -> None:
        """Check a gradient that a step (from 1) applies; Diverged if it, or that of an earlier step, is not finite."""
        if not part.values.is_meta:
            self.pending.append((step, streams.process_streams().fetch(part.state())))
            self.check(step)

    def check(self, current_step: int, wait: bool = False) -> None:
        """Diverged if a gradient whose flags have arrived is not finite; wait: for all flags."""
        while self.pending and (wait or self.pending[0][1].ready()):
            step, state = self.pending.popleft()
            suffix = ": the step is not applied on any rank" if step == current_step and not wait else ""
            Sparse.check(state.value(), self.names, f"at step {step}{suffix}")
