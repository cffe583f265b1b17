"""A worker's pulls of an iteration, concurrent with its forward pass, and their measured overlap."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from repro.algorithms.parameter_server.client import Client
from repro.training.clock import overlap_seconds
from repro.training.model_shard import Loss

Span = tuple[float, float]


class Pulling:
    """A task, `pull`, which runs `iBatchgetWeights` while the main task runs `iBatchforward` (iBatch, Implementation).

    batches: (first, last) layers, from 0, inclusive, in the order of their pulls. A batch without parameters is not
    pulled; at the front it computes during the first pull.
    """

    def __init__(self, client: Client, batches: Sequence[tuple[int, int]]):
        self.client, self.fabric, self.clock = client, client.fabric, client.clock
        self.firsts = {first for first, _ in batches}
        self.batches = [batch for batch in batches if client.shards.elements(*batch)]
        self.arrived = {first: self.fabric.event() for first, _ in self.batches}
        self.requests = self.fabric.queue()
        self.pulls: list[Span] = []
        self.computing: list[Span] = []
        self.since: float | None = None
        self.steps: list[dict[str, float]] = []
        self.task = self.fabric.spawn(self._pull, "pull")

    def _pull(self) -> None:
        while (iteration := self.requests.get(timeout=float("inf"))) is not None:
            for first, last in self.batches:
                began = self.fabric.now()
                self.client.pull(first, last, iteration)
                self.pulls.append((began, self.fabric.now()))
                self.arrived[first].set()

    # --- the main task
    def begin(self, iteration: int) -> None:
        """Start an iteration's pulls."""
        for arrived in self.arrived.values():
            arrived.clear()
        self.pulls, self.computing, self.since = [], [], None
        self.began = self.fabric.now()
        self.requests.put(iteration)

    def before_block(self, block: int) -> None:
        """Wait for the batch that starts with this layer, without a time limit: pulls have their own."""
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
        """Run the forward pass, and record the times of the iteration's pulls and passes."""
        loss = run()
        if self.since is not None:
            self.computing.append((self.since, self.fabric.now()))
        # if this rank has a server, pulls start when its weights are updated: waiting for them is not the pull's time
        updated_at = self.client.own.updated_at if self.client.own else 0.0
        began = max(self.began, min(updated_at, self.pulls[0][1]))
        pulls = [(max(start, began), end) for start, end in self.pulls]
        self.steps.append(
            {
                "forward_end_s": self.computing[-1][1] - began,
                "pull_s": sum(end - start for start, end in pulls),
                "forward_s": sum(end - start for start, end in self.computing),
                "overlap_s": overlap_seconds(pulls, self.computing),
            }
        )
        return loss

    def describe(self) -> dict[str, Any]:
        """Medians of the steps, and the first step, which waits for no other worker, in seconds.

        forward_end_s: from the first pull (or, if later, the servers' weights) to the end of the forward pass; pull_s:
        in pulls; forward_s: in forward computation; overlap_s: in both at once.
        """
        if not self.steps:
            return {"steps": 0}
        medians = {name: statistics.median(step[name] for step in self.steps) for name in self.steps[0]}
        return medians | {"steps": len(self.steps), "first_step": self.steps[0]}

    def close(self) -> None:
        self.requests.put(None)
        self.task.join()
