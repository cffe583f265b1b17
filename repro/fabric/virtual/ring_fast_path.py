"""A ring allreduce without contents, when nothing else is under way: its times by a recurrence over all ranks at once.

It gives the times of the events to the last bit (`repro.fabric.virtual.links`, `collectives.ring_allreduce`), and is
used where nothing else can meet the ring's messages. That is so when
- the links are `Links` without hosts, of one alpha, waits have no limit, and every rank of the run takes part;
- no task is alive but the ranks' main lines, and none has sent since the first came, nor is a message under way;
- the last head of the ring's messages has arrived before anything that a rank sends after its end can arrive.
Else all go through the events, from the moments at which they came: whoever came early has done nothing meanwhile, and
what the others did meanwhile concerned no one else. Before a rank that has not come does anything that concerns others
(`flush`), the early ones have their turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro.fabric.collectives.blocks import bounds
from repro.fabric.costs import Costs
from repro.fabric.virtual.links import Links
from repro.fabric.virtual.scheduler import Scheduler, VirtualTask


@dataclass(frozen=True)
class Ring:
    """What the ranks have to have in common."""

    elements: int
    itemsize: int
    channel: int
    costs: Costs

    def ends(self, links: Links, arrivals: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """(when each rank ends, when its NIC is free to send, to receive, when the last head arrives) of ranks that
        came at (p,) seconds."""
        p, alpha, ranks = len(arrivals), links.network.alpha, np.arange(len(arrivals))
        sizes = [end - start for start, end in bounds(self.elements, p)]
        wires = np.array([n * self.itemsize * links.network.beta for n in sizes])
        sums = np.array([self.costs.modelled("reduce", 4 * n) if self.costs.known else 0.0 for n in sizes])
        now = np.array(arrivals) + (self.costs.seconds("sync") or 0.0)
        tx, rx, last_head = np.array(links.tx_free), np.array(links.rx_free), 0.0
        for hop in range(2 * (p - 1)):
            outgoing = (ranks - hop) % p if hop < p - 1 else (ranks + p - hop) % p
            begin, wire = np.maximum(now, tx), wires[outgoing]
            left = tx = begin + wire
            head = np.roll(begin + alpha, 1)  # at the right neighbour
            rx = np.maximum(head, rx) + np.roll(wire, 1)
            now = np.maximum(now, rx)
            if hop < p - 1:
                now = now + sums[np.roll(outgoing, 1)]
            now = np.maximum(now, left)
            last_head = max(last_head, float(head.max()))
        return now, tx, rx, last_head


class RingFastPath:
    """Where the ranks of one run come together for such a ring."""

    def __init__(self, scheduler: Scheduler, links: Links, size: int):
        self.scheduler, self.links, self.size = scheduler, links, size
        self.arrived: dict[int, VirtualTask] = {}
        self.wanted: Ring | None = None
        self.by_events: set[int] = set()  # ranks that came, and are to go through the events
        network = links.network
        # FairLinks, hosts and by_size bring messages together, or let them overtake one another
        self.possible = type(links) is Links and not network.hosts and not network.by_size and size > 1
        scheduler.when_stuck = self._release

    def ring(self, ring: Ring, rank: int) -> bool:
        """One rank comes. True when the ring is over for it, False where it has to go through the events."""
        scheduler = self.scheduler
        scheduler.check()
        if not self.possible or (not self.arrived and not scheduler.only_tasks(self.size)):
            return False
        if self.arrived and ring != self.wanted:
            self.flush()
            return False
        self.arrived[rank], self.wanted = scheduler.current, ring
        if len(self.arrived) < self.size:
            scheduler.block("all ranks to come to an allreduce")
            if rank not in self.by_events:
                return True
            self.by_events.remove(rank)
            return False
        return self._all_arrived(ring, rank)

    def flush(self) -> None:
        """The running task is about to do what concerns others: before that, those that came go on."""
        if self._release():
            self.scheduler.advance(0.0)

    def _release(self) -> bool:
        """Those that came go through the events, from when they came; False where nobody had come."""
        arrived, self.arrived = self.arrived, {}
        self.by_events.update(arrived)
        for task in arrived.values():
            self.scheduler.resume(task, task.now)
        return bool(arrived)

    def _all_arrived(self, ring: Ring, last: int) -> bool:
        """The last of them: those before it go on when the ring is over for them, and so does it."""
        network, ranks = self.links.network, range(self.size)
        ends, tx, rx, last_head = ring.ends(self.links, [self.arrived[rank].now for rank in ranks])
        if not last_head < float(ends.min()) + network.alpha:
            del self.arrived[last]
            self.flush()
            return False
        self.links.tx_free, self.links.rx_free = tx.tolist(), rx.tolist()
        self.links.messages += 2 * (self.size - 1) * self.size
        arrived, self.arrived = self.arrived, {}
        for rank, end in zip(ranks, ends.tolist()):
            if rank != last:
                self.scheduler.resume(arrived[rank], end)
        self.scheduler.advance_to(float(ends[last]))
        return True


def bytes_sent(ring: Ring, rank: int, size: int) -> int:
    """By one rank: every block but one in each half."""
    sizes = [end - start for start, end in bounds(ring.elements, size)]
    return ring.itemsize * (2 * ring.elements - sizes[(rank + 1) % size] - sizes[(rank + 2) % size])
