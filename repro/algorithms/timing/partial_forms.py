"""Closed forms of eager-SGD's partial collectives, and the time of its steps on links that messages share.

Ranks outside the largest power of two send their vector to a partner first and get the sum last, and the others do not
wait for them (`recursive_doubling_allreduce` without `paced`). So a rank may receive two messages at once, which share
its network card, and ranks that have the sum early start the next round while others still send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from random import Random

from repro.algorithms.timing.collective_forms import recursive_doubling
from repro.algorithms.timing.setting import Place, Setting
from repro.core.errors import unknown_name
from repro.fabric.collectives.activation import INITIATORS, MAJORITY, QUORUM, SOLO


def mean_wait_s(initiator: str, p: int, skew_s: float, quorum: int | None = None) -> float:
    """Mean over the ranks of the wait until the round starts, if rank i arrives i x skew_s after the first (Figure 8).

    In units of skew_s: allreduce (p - 1) / 2, solo 0, majority (p^2 - 1) / 6p in expectation, quorum q (q - 1) / 2p.
    So with large skew majority is 3p / (p + 1) times as fast as an allreduce, at most 3 times.
    """
    if initiator == "allreduce":
        initiator, quorum = QUORUM, p
    if initiator == SOLO:
        return 0.0
    if initiator == MAJORITY:
        return skew_s * (p * p - 1) / (6 * p)
    if initiator == QUORUM and quorum is not None:
        return skew_s * quorum * (quorum - 1) / (2 * p)
    raise unknown_name("initiator", initiator, [*INITIATORS, "allreduce"])


def active_processes(initiator: str, p: int, quorum: int | None = None) -> float:
    """Expected number of active processes if no two arrive at once (section 6.1; 4.2 rounds majority's to P / 2)."""
    expected = {SOLO: 1.0, MAJORITY: (p + 1) / 2, QUORUM: quorum, "allreduce": p}
    if (active := expected.get(initiator)) is None:
        raise unknown_name("initiator", initiator, expected)
    return float(active)


ROUNDS, WARMUP = 16, 6  # simulated, and those of them before the steady state
Transfer = tuple[int | None, int | None, bool]  # to, from, and whether what is received is added
BEGIN, LEFT, ARRIVED = range(3)


def rank_transfers(rank: int, p: int) -> Iterator[Transfer]:
    """A rank's transfers in order; both of a pair end before the next begin."""
    core = 1 << (p.bit_length() - 1)
    if rank >= core:
        yield rank - core, None, False
        yield None, rank - core, False
        return
    outside = rank + core if rank + core < p else None
    if outside is not None:
        yield None, outside, True
    for level in range(core.bit_length() - 1):
        yield rank ^ (1 << level), rank ^ (1 << level), True
    if outside is not None:
        yield outside, None, False


class Card:
    """A receiver's network card: the messages on it (sender -> seconds left at the full rate) share it evenly."""

    def __init__(self) -> None:
        self.left: dict[int, float] = {}
        self.since, self.changes = 0.0, 0

    def change(self, at: float, sender: int, wire: float | None) -> None:
        """A sender's message of `wire` seconds begins; None: it has left."""
        for other in self.left:
            self.left[other] -= (at - self.since) / len(self.left)
        self.since, self.changes = at, self.changes + 1
        if wire is None:
            del self.left[sender]
        else:
            self.left[sender] = wire

    def next_end(self) -> tuple[float, int]:
        """(when, sender) of the message that leaves first."""
        sender = min(self.left, key=self.left.__getitem__)
        return self.since + max(0.0, self.left[sender]) * len(self.left), sender


def exchange_ends(starts: Sequence[float], alpha: float, wire: float, work: float) -> list[float]:
    """When each rank ends an exchange that it starts at `starts`. wire, work: seconds to send and to add a vector."""
    p = len(starts)
    plans = [rank_transfers(rank, p) for rank in range(p)]
    cards, ends = [Card() for _ in range(p)], list(starts)
    adds = [False] * p  # whether a rank adds what it receives now
    awaited: list[set[tuple[int, int]]] = [set() for _ in range(p)]  # (LEFT, receiver) or (ARRIVED, sender)
    arrived: list[set[tuple[int, int]]] = [set() for _ in range(p)]
    events = [(start, BEGIN, rank, 0, 0) for rank, start in enumerate(starts)]  # time, kind, rank, other, changes
    heapify(events)

    def change(to: int, at: float, sender: int, seconds: float | None) -> None:
        cards[to].change(at, sender, seconds)
        if cards[to].left:
            end, first = cards[to].next_end()
            heappush(events, (end, LEFT, first, to, cards[to].changes))

    def happened(rank: int, at: float, what: tuple[int, int]) -> None:
        arrived[rank].add(what)
        if awaited[rank] and awaited[rank] <= arrived[rank]:
            awaited[rank] = set()
            heappush(events, (at + work * adds[rank], BEGIN, rank, 0, 0))

    while events:
        at, kind, rank, other, changes = heappop(events)
        if kind == ARRIVED:
            happened(rank, at, (ARRIVED, other))
        elif kind == LEFT and changes == cards[other].changes:
            change(other, at, rank, None)
            heappush(events, (at + alpha, ARRIVED, other, rank, 0))
            happened(rank, at, (LEFT, other))
        elif kind == BEGIN:
            ends[rank] = at
            if transfer := next(plans[rank], None):
                to, source, adds[rank] = transfer
                awaited[rank] = {(kind, peer) for kind, peer in ((LEFT, to), (ARRIVED, source)) if peer is not None}
                if to is not None:
                    change(to, at, rank, wire)
                if awaited[rank] <= arrived[rank]:
                    happened(rank, at, next(iter(awaited[rank])))
    return ends


@lru_cache(maxsize=4096)
def partial_step(initiator: str, p: int, computation: float, alpha: float, wire: float, work: float) -> float:
    """Seconds of a steady step of eager-SGD whose computation takes as long on all ranks.

    wire, work: seconds to send and to add a vector. A round starts on all ranks when its initiator has a gradient: in
    solo the first rank, in majority any; a rank that is still in the round before follows. Exact for solo; in majority
    it depends on the initiators that are drawn.
    """
    ends, ready, started = [0.0] * p, [computation] * p, []
    drawn = Random(0).sample(range(p), p) * ROUNDS
    for rank in drawn[:ROUNDS]:
        started.append(min(ready) if initiator == SOLO else ready[rank])
        ends = exchange_ends([max(end, started[-1]) for end in ends], alpha, wire, work)
        ready = [max(end, before) + computation for end, before in zip(ends, ready)]
    return (started[-1] - started[WARMUP]) / (ROUNDS - 1 - WARMUP)


def eager_exchange(initiator: str, setting: Setting, place: Place) -> float:
    """What a partial allreduce by recursive doubling adds to a step in which no rank is late."""
    p, gamma = place.workers, setting.testbed.gamma_s_per_byte
    if not p & (p - 1):
        return recursive_doubling(p, setting.nbytes, place.alpha, place.beta, gamma)
    line, vector = setting.computation_s + setting.update_s, (setting.nbytes * place.beta, setting.nbytes * gamma)
    return partial_step(initiator, p, line, place.alpha, *vector) - line
