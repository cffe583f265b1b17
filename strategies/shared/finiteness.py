"""Whether what all ranks are to apply is finite, found out without keeping a GPU waiting."""

from __future__ import annotations

from collections import deque

from repro.fabric.real import streams
from repro.fabric.real.streams import Fetched
from repro.fabric.sparse.gradients import Sparse


class Finiteness:
    """What comes in is looked at as soon as the host can have it: at once on a CPU, before the update; on a GPU when it
    has got there, some steps later (the flags of a gradient that is not finite change no weight), at the latest at the
    next stop."""

    def __init__(self, names: list[str]):
        """names: of the parameters that `Sparse.flagged` counts."""
        self.names = names
        self.coming: deque[tuple[int, Fetched]] = deque()  # of a step

    def watch(self, part: Sparse, step: int) -> None:
        """What a step (from 1) is about to apply. Diverged where it, or that of an earlier one, is not finite."""
        if not part.values.is_meta:
            self.coming.append((step, streams.here().fetch(part.state())))
            self.look(step)

    def look(self, now: int, wait: bool = False) -> None:
        """Diverged where something that has come in was not finite; wait: for all. now: the step that is at work."""
        while self.coming and (wait or self.coming[0][1].ready()):
            step, state = self.coming.popleft()
            found = ": the step is not applied on any rank" if step == now and not wait else ""
            Sparse.check(state.value(), self.names, f"at step {step}{found}")
