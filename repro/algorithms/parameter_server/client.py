"""A worker's interface to a sharded parameter server: pulls layers during its forward pass, pushes their gradients."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

import torch

from repro.algorithms.parameter_server.server import (
    LEAVE,
    NOTHING,
    PULL,
    PULLED,
    PUSH,
    PUSHED,
    REQUEST,
    Server,
    make_request,
)
from repro.algorithms.parameter_server.shards import Shards
from repro.algorithms.parameter_server.wire import Dropping, WireFormat
from repro.core.not_none import not_none
from repro.fabric.base import BACKGROUND, MAIN, SIGNALS, Fabric, Work
from repro.training.clock import Clock, overlap_seconds
from repro.training.model_shard import Loss


class Client:
    """A worker's client.

    weights   (n,) of the worker's model, which pulls overwrite; the model's parameters are views of it
    servers   the servers' ranks, in the order of the shards
    own       the server on this rank, if any, which is called without messages
    dropping  of gradients; None: dense gradients
    wire      the number format of weights and dense gradients
    in_order  staggered: each worker begins with the next rank's server and asks all at once. In order: every worker
              asks the servers in the same order, `pull_threads` of the testbed at a time, as BigDL 0.5 does, so that
              workers crowd at one server after the other:

                  staggered   worker 0: 1 2 3 0      in order   worker 0: 0 1 2 3
                              worker 1: 2 3 0 1                 worker 1: 0 1 2 3
    """

    def __init__(
        self,
        fabric: Fabric,
        clock: Clock,
        shards: Shards,
        servers: list[int],
        weights: torch.Tensor,
        local_server: Server | None,
        dropping: Dropping | None,
        wire: WireFormat | None = None,
        in_order: bool = False,
    ):
        self.wire = wire or WireFormat(fabric)
        self.fabric, self.clock, self.shards, self.servers = fabric, clock, shards, servers
        self.weights, self.own, self.dropping = weights, local_server, dropping
        self.sends: list[Work] = []
        place = len(servers) if in_order else fabric.rank % len(servers) + 1
        self.order = [*range(place, len(servers)), *range(min(place, len(servers)))]
        self.at_once = fabric.costs.pull_threads if in_order else None  # transfers; None: all

    # --- pulls, on any task
    def pull(self, first: int, last: int, iteration: int) -> None:
        """Fetch the weights of the layers `first` to `last`, inclusive, as iteration `iteration` needs them.

        Requests go to all servers at once (but see `in_order`), after the testbed's startup time, if any.
        """
        fabric, requests, buffers = self.fabric, [], []
        receives: list[Work] = []
        self.start_up(sum(self.shards.size(server, first, last) > 0 for server in self.order))
        with self.clock.phase("communicate"):
            local = None
            message = make_request(PULL, first, last, iteration)
            for server in self.order:
                elements = self.shards.size(server, first, last)
                if not elements:
                    continue
                if self.servers[server] == fabric.rank:
                    local = not_none(self.own).pull(
                        fabric.rank, first, last, iteration, self._copy_own(server, first, last)
                    )
                    continue
                runs = self.shards.runs(server, first, last)
                self._wait_for_turn(receives)
                in_place = self.weights[slice(*runs[0])] if len(runs) == 1 and self.wire.plain else None
                buffer = self.wire.empty(elements, self.weights.device) if in_place is None else in_place
                receives.append(fabric.irecv(buffer, self.servers[server], PULLED, BACKGROUND))
                if in_place is None:
                    buffers.append((server, buffer))
                requests.append(self._request(message, server))
            fabric.wait_all([*requests, *receives])
            for server, buffer in buffers:
                self.shards.scatter(self.wire.decode(buffer), self.weights, server, first, last)
            if local:
                local.wait()

    def pull_nothing(self) -> None:
        """A pull of one dummy element from each server, to measure the fixed cost of a pull."""
        self.start_up(len(self.order))
        works = []
        with self.clock.phase("communicate"):
            for server in self.order:
                if self.servers[server] != self.fabric.rank:
                    works.append(self.fabric.irecv(torch.empty(1), self.servers[server], PULLED, BACKGROUND))
                    works.append(self._request(make_request(NOTHING), server))
            self.fabric.wait_all(works)

    def start_up(self, servers: int) -> None:
        """Wait for the testbed's startup time of a pull from so many servers (iBatch's T_s minus the network's alpha).

        With `pull_threads` the startup time is that of one server, and so many start concurrently.
        """
        costs = self.fabric.costs
        if seconds := costs.seconds("startup"):
            with self.clock.phase("startup"):
                self.fabric.sleep(seconds * (ceil(servers / costs.pull_threads) if costs.pull_threads else 1))

    def _wait_for_turn(self, works: list[Work]) -> None:
        """Wait until fewer than `at_once` of a pull's or push's transfers, in the order of their start, are left."""
        if self.at_once and len(works) >= self.at_once:
            works[-self.at_once].wait()

    def _copy_own(self, server: int, first: int, last: int) -> Callable[[], None]:
        def copy() -> None:
            encoded = not_none(self.own).encoded(first, last)
            self.shards.scatter(self.wire.decode(encoded), self.weights, server, first, last)

        return copy

    def _request(self, message: torch.Tensor, server: int) -> Work:
        return self.fabric.isend(message, self.servers[server], REQUEST, SIGNALS)

    # --- pushes, on the main task
    def push(self, first: int, last: int, gradient: torch.Tensor) -> None:
        """Start to send these layers' part of a gradient (n,), which is copied; `sent` waits for the sends."""
        announcement, parts = make_request(PUSH, first, last), list[Work]()
        for server in self.order:
            if not self.shards.size(server, first, last):
                continue
            if self.dropping:
                part = self.dropping.message(gradient, server, first, last)
            else:
                part = self.wire.encode(self.shards.gather(gradient, server, first, last))
            if self.servers[server] == self.fabric.rank:
                not_none(self.own).push(self.fabric.rank, first, last, part)
                continue
            self._wait_for_turn(parts)
            parts.append(self.fabric.isend(part, self.servers[server], PUSHED, MAIN))
            self.sends += [self._request(announcement, server), parts[-1]]

    def sent(self) -> None:
        """Wait for the sends of all pushes."""
        sends, self.sends = self.sends, []
        self.fabric.wait_all(sends)

    def leave(self) -> None:
        """Tell the servers that this worker sends nothing more."""
        for server in self.order:
            if self.servers[server] != self.fabric.rank:
                self._request(make_request(LEAVE), server).wait()


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
