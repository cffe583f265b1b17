"""Seconds of a pipeline's iterations, by a recursion over the events of its plan.

A rank does its passes in the plan's order, each when its input and its version of the weights are there. Messages from
one rank to another are sent one after the other; those of different ranks share a network card. Replicas of a stage sum
a gradient block by block, as soon as all have it, through a server with a shard on each (`sharded_server`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from statistics import fmean
from typing import Any

from repro.algorithms.pipeline.passes import FORWARD, Op, Plan


@dataclass(frozen=True)
class StageTimes:
    """Seconds of a stage. All but `send` of its minibatches' passes.

    backward  of each block with parameters and those behind it, in the order of the backward pass
    sums      of each of these blocks between replicas: on a network card, for each of push and pull, and to add
    send      of a message on the wire to the next stage, or back
    update    of its weights
    """

    forward: float
    backward: tuple[float, ...]
    sums: tuple[tuple[float, float], ...]
    send: float
    update: float


@dataclass(eq=False)
class Flow:
    """Messages on network cards, one after the other: (seconds at the full rate, what happens when one arrives).

    weight: messages at once, of which each has the same share of a card. left: seconds that the first message needed at
    `since`.
    """

    cards: tuple[int, ...]
    weight: int = 1
    messages: deque[tuple[float, tuple[Any, ...]]] = field(default_factory=deque)
    left: float = 0.0
    since: float = 0.0
    rate: float = 0.0
    changes: int = 0


@dataclass(eq=False)
class Rank:
    """latest: version of its weights. ends: of its steps, each a backward pass and an update that follows at once.
    waited: before its latest forward pass that followed an update, since the end of its step.
    """

    number: int
    stage: int
    replica: int
    ops: Iterator[Op]
    op: Op | None = None
    busy: bool = False
    latest: int = 0
    ends: list[float] = field(default_factory=list)
    waited: float = 0.0


class Recursion:
    """Events of a plan. `events`: (time, number, method's name, its arguments)."""

    def __init__(self, plan: Plan, times: Sequence[StageTimes], alpha: float):
        self.plan, self.times, self.alpha = plan, times, alpha
        layout = plan.layout
        self.last = len(times) - 1
        places = (layout.place(number) for number in range(layout.ranks))
        self.ranks = [Rank(number, *place, plan.ops(*place)) for number, place in enumerate(places)]
        self.now, self.number = 0.0, 0
        self.events: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self.inputs: set[tuple[int, str, int]] = set()  # (stage, pass, minibatch) whose message has arrived
        self.flows: dict[tuple[int, int], Flow] = {}  # (from, to)
        # the flows on each card; rank r sends on card 2 r and receives on card 2 r + 1
        self.on: dict[int, dict[Flow, None]] = {card: {} for card in range(2 * layout.ranks)}
        self.changed: dict[Flow, None] = {}
        self.sums = [Flow(self._cards(stage), max(1, plan.replicas(stage) - 1)) for stage in range(len(times))]
        self.has: Counter[tuple[int, int]] = Counter()  # (stage, its n-th sum) -> replicas that have the gradient
        self.summed = [0] * len(times)  # sums of each stage that are over
        self.summing = [False] * len(times)  # whether one is under way

    def _cards(self, stage: int) -> tuple[int, ...]:
        return tuple(card for rank in self.plan.layout.replicas_of(stage) for card in (2 * rank, 2 * rank + 1))

    def run(self, steps: Sequence[int]) -> None:
        """Until every rank has ended so many steps."""
        for rank in self.ranks:
            rank.op = next(rank.ops, None)
            self._proceed(rank)
        missing = {rank.number for rank in self.ranks if steps[rank.number]}
        while missing:
            if self.changed and (not self.events or self.events[0][0] > self.now):
                self._share()
            self.now, _, method, arguments = heappop(self.events)
            ended = method(*arguments)
            if ended is not None and len(ended.ends) >= steps[ended.number]:
                missing.discard(ended.number)

    def _at(self, when: float, method: Any, *arguments: Any) -> None:
        self.number += 1
        heappush(self.events, (when, self.number, method, arguments))

    # --- passes
    def _proceed(self, rank: Rank) -> None:
        """Start the rank's next pass, or the update that it needs first, if it can start."""
        if rank.busy or rank.op is None:
            return
        (kind, k), plan, stage, times = rank.op, self.plan, rank.stage, self.times[rank.stage]
        forward = kind == FORWARD
        version = plan.version(stage, k, rank.replica) if forward else plan.update_of(stage, k)
        if rank.latest < version:
            if not times.sums or self.summed[stage] >= (rank.latest + 1) * len(times.sums):
                rank.busy = True
                self._at(self.now + times.update, self._updated, rank)
            return
        needed = stage, kind, plan.minibatch(stage, rank.replica, k)
        if stage != (0 if forward else self.last) and needed not in self.inputs:
            return
        rank.busy = True
        if forward and rank.ends and self._completes_update(rank, k - 1):
            rank.waited = self.now - rank.ends[-1] - (times.update if times.sums else 0.0)
        if not forward and times.sums and self._completes_update(rank, k):
            update = plan.update_of(stage, k) * len(times.sums)
            for block, seconds in enumerate(accumulate(times.backward[: len(times.sums)])):
                self._at(self.now + seconds, self._contributed, stage, update + block)
        self._at(self.now + (times.forward if forward else sum(times.backward)), self._passed, rank)

    def _completes_update(self, rank: Rank, k: int) -> bool:
        share = self.plan.group(rank.stage) // self.plan.replicas(rank.stage)
        return (k + 1) % share == 0

    def _updated(self, rank: Rank) -> None:
        rank.busy, rank.latest = False, rank.latest + 1
        self._proceed(rank)

    def _passed(self, rank: Rank) -> Rank | None:
        assert rank.op
        (kind, k), stage = rank.op, rank.stage
        minibatch = self.plan.minibatch(stage, rank.replica, k)
        to = stage + 1 if kind == FORWARD else stage - 1
        if 0 <= to <= self.last:
            receiver = self.plan.layout.rank_of(to, minibatch)
            if (flow := self.flows.get((rank.number, receiver))) is None:
                flow = self.flows[rank.number, receiver] = Flow((2 * rank.number, 2 * receiver + 1))
            seconds = self.times[min(stage, to)].send
            self._send(flow, seconds, self._arrived, self.ranks[receiver], (to, kind, minibatch))
        rank.op, rank.busy = next(rank.ops, None), False
        if kind == FORWARD:
            self._proceed(rank)
            return None
        if self.plan.replicas(stage) == 1 and self._completes_update(rank, k):
            rank.busy = True
            self._at(self.now + self.times[stage].update, self._updated, rank)
            rank.ends.append(self.now + self.times[stage].update)
        else:
            rank.ends.append(self.now)
            self._proceed(rank)
        return rank

    def _arrived(self, rank: Rank, what: tuple[int, str, int]) -> None:
        self.inputs.add(what)
        self._proceed(rank)

    # --- sums of a stage's replicas
    def _contributed(self, stage: int, number: int) -> None:
        self.has[stage, number] += 1
        self._begin_sum(stage)

    def _begin_sum(self, stage: int) -> None:
        """Push the next gradient, if all replicas have it and no other one is being summed."""
        number, sums = self.summed[stage], self.times[stage].sums
        if not self.summing[stage] and self.has[stage, number] == self.plan.replicas(stage):
            self.summing[stage] = True
            wire, add = sums[number % len(sums)]
            self._send(self.sums[stage], wire, self._pushed, stage, wire, add)

    def _pushed(self, stage: int, wire: float, add: float) -> None:
        self._at(self.now + add, self._send, self.sums[stage], wire, self._pulled, stage)

    def _pulled(self, stage: int) -> None:
        self.summed[stage], self.summing[stage] = self.summed[stage] + 1, False
        self._begin_sum(stage)
        for number in self.plan.layout.replicas_of(stage):
            self._proceed(self.ranks[number])

    # --- network cards
    def _send(self, flow: Flow, seconds: float, *then: Any) -> None:
        """Send a message; then: what happens when it arrives."""
        flow.messages.append((seconds, then))
        if len(flow.messages) == 1:
            flow.left, flow.since, flow.rate = seconds, self.now, 0.0
            for card in flow.cards:
                self.on[card][flow] = None
            self.changed[flow] = None

    def _share(self) -> None:
        """New rates of the flows on cards on which flows have begun or ended: of each card by weight."""
        changed, self.changed = self.changed, {}
        cards = {card for flow in changed for card in flow.cards}
        loads: dict[int, int] = {}
        for flow in dict.fromkeys(flow for card in cards for flow in self.on[card]):
            for card in flow.cards:
                if card not in loads:
                    loads[card] = sum([each.weight for each in self.on[card]])
            rate = flow.weight / max([loads[card] for card in flow.cards])
            if rate != flow.rate:
                flow.left, flow.since = flow.left - (self.now - flow.since) * flow.rate, self.now
                flow.rate, flow.changes = rate, flow.changes + 1
                self._at(self.now + max(0.0, flow.left) / rate, self._left, flow, flow.changes)

    def _left(self, flow: Flow, changes: int) -> None:
        if changes != flow.changes:
            return
        _, (method, *arguments) = flow.messages.popleft()
        self._at(self.now + self.alpha, method, *arguments)
        if flow.messages:
            flow.left, flow.since, flow.changes = flow.messages[0][0], self.now, flow.changes + 1
            self._at(self.now + flow.left / flow.rate, self._left, flow, flow.changes)
        else:
            flow.changes += 1
            for card in flow.cards:
                del self.on[card][flow]
            self.changed[flow] = None


def pipeline_step(
    plan: Plan, times: Sequence[StageTimes], alpha: float, iterations: int, late_s: float = 0.0
) -> tuple[float, float]:
    """(seconds of an iteration, what a late rank adds). An iteration is a flush, or without flushes as many minibatches
    as there are ranks.

    The mean over the ranks and so many iterations after as many others. A rank that is late by late_s in an iteration
    adds what it does not wait anyhow: with flushes before its first forward pass, without all the time.
    """
    layout, recursion = plan.layout, Recursion(plan, times, alpha)
    first, last = (
        [plan.count(*layout.place(rank), done * minibatches_of(plan)) for rank in range(layout.ranks)]
        for done in (iterations, 2 * iterations)
    )
    recursion.run(last)
    took = [
        rank.ends[after - 1] - (rank.ends[before - 1] if before else 0.0)
        for rank, before, after in zip(recursion.ranks, first, last)
    ]
    seconds = fmean(took) / iterations

    def waits_s(rank: Rank) -> float:
        passes = layout.ranks / plan.replicas(rank.stage) * _passes_s(times[rank.stage])
        return rank.waited if plan.flush else seconds - passes

    return seconds, fmean(max(0.0, late_s - waits_s(rank)) for rank in recursion.ranks)


def minibatches_of(plan: Plan) -> int:
    """Of an iteration (`pipeline_step`)."""
    return plan.flush or plan.layout.ranks


def _passes_s(stage: StageTimes) -> float:
    return stage.forward + sum(stage.backward)


def least_seconds(plan: Plan, times: Sequence[StageTimes], alpha: float) -> float:
    """A lower bound of `pipeline_step`, at once: the longest passes and updates of a rank, or messages on a card.

    With flushes also the first forward pass on its way to a stage, and the last backward pass on its way back.
    """
    minibatches, least, way = minibatches_of(plan), 0.0, 0.0
    for number, stage in enumerate(times):
        replicas = plan.replicas(number)
        passes, sums = _passes_s(stage), sum(2 * wire + add for wire, add in stage.sums)
        update = stage.update * replicas / plan.group(number)
        if number < len(times) - 1:
            least = max(least, minibatches / max(replicas, plan.replicas(number + 1)) * stage.send)
        least = max(least, way + minibatches / replicas * (passes + update), minibatches / plan.group(number) * sums)
        if plan.flush:
            way += passes + 2 * (stage.send + alpha)
    return least


def split_blocks(seconds: Iterable[float], trained: Iterable[bool]) -> list[float]:
    """Seconds of each block with parameters and the blocks before it, and of those after the last one, if any."""
    parts, waiting = [], 0.0
    for each, has_parameters in zip(seconds, trained):
        waiting += each
        if has_parameters:
            parts.append(waiting)
            waiting = 0.0
    return [*parts, waiting] if waiting else parts
