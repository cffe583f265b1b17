"""A worker's pulls of an iteration beside its forward pass, batch after batch, and what overlapped with what."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from repro.algorithms.parameter_server.client import Client
from repro.training.clock import overlap
from repro.training.model_shard import Loss

Span = tuple[float, float]


class Pulling:
    """A task, `pull`, which does `iBatchgetWeights` while the main line does `iBatchforward` (iBatch, Implementation).

    batches   (first, last) layers from 0, both in it, in the order in which they are pulled. One without parameters is
              not pulled: at the front, it computes during the first pull
    """

    def __init__(self, client: Client, batches: Sequence[tuple[int, int]]):
        self.client, self.fabric, self.clock = client, client.fabric, client.clock
        self.firsts = {first for first, _ in batches}
        self.batches = [batch for batch in batches if client.shards.elements(*batch)]
        self.arrived = {first: self.fabric.event() for first, _ in self.batches}
        self.asked = self.fabric.queue()
        self.pulls: list[Span] = []
        self.computing: list[Span] = []
        self.since: float | None = None
        self.steps: list[dict[str, float]] = []
        self.task = self.fabric.spawn(self._pull, "pull")

    def _pull(self) -> None:
        while (iteration := self.asked.get(timeout=float("inf"))) is not None:
            for first, last in self.batches:
                began = self.fabric.now()
                self.client.pull(first, last, iteration)
                self.pulls.append((began, self.fabric.now()))
                self.arrived[first].set()

    # --- the main line
    def begin(self, iteration: int) -> None:
        """Start an iteration's pulls."""
        for arrived in self.arrived.values():
            arrived.clear()
        self.pulls, self.computing, self.since = [], [], None
        self.began = self.fabric.now()
        self.asked.put(iteration)

    def before_block(self, block: int) -> None:
        """Wait for the batch that begins with a layer; the pulls' own limit says when that is too long."""
        if block not in self.firsts:
            return
        now = self.fabric.now()
        if self.since is not None:
            self.computing.append((self.since, now))
        if block in self.arrived:
            with self.clock.phase("communicate"):
                self.arrived[block].wait(timeout=float("inf"))
        self.since = self.fabric.now()

    def watched(self, run: Callable[[], Loss]) -> Loss:
        """The forward pass, whose end is noted."""
        loss = run()
        if self.since is not None:
            self.computing.append((self.since, self.fabric.now()))
        self._keep()
        return loss

    def _keep(self) -> None:
        """What the iteration's pulls and forward pass took.

        Where this rank's server says when it had the weights that were pulled they begin there: what a pull waited for
        before is not its own time.
        """
        updated_at = self.client.own.updated_at if self.client.own else 0.0
        began = max(self.began, min(updated_at, self.pulls[0][1]))
        pulls = [(max(start, began), end) for start, end in self.pulls]
        hidden = overlap(pulls, self.computing)
        pulling = sum(end - start for start, end in pulls)
        forward = sum(end - start for start, end in self.computing)
        self.steps.append(
            {
                "forward_end_s": self.computing[-1][1] - began,
                "pull_s": pulling,
                "forward_s": forward,
                "overlap_s": hidden,
            }
        )

    def describe(self) -> dict[str, Any]:
        """Seconds, medians over the steps, and those of the first one, which waits for nobody.

        To the end of the forward pass, from the first pull asked (or, later, the weights ready); in pulls; in forward
        computation; in both at once.
        """
        if not self.steps:
            return {"steps": 0}
        medians = {name: statistics.median(step[name] for step in self.steps) for name in self.steps[0]}
        return medians | {"steps": len(self.steps), "first_step": self.steps[0]}

    def close(self) -> None:
        self.asked.put(None)
        self.task.join()
