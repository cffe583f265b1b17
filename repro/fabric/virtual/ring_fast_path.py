"""A fast path for ring allreduces without contents: computes the times of all ranks at once by a recurrence.

The times equal those of the event simulation to the last bit (`repro.fabric.virtual.links`,
`collectives.ring_allreduce`). The fast path is used if no other message can interfere with the ring's:
- the links are `Links` without hosts and losses and with one alpha, waits have no limit, and all ranks take part;
- only the ranks' main tasks are alive, none has sent since the first rank arrived, and no message is in flight;
- the last of the ring's messages reaches its receiver before any later message of a rank can.
Otherwise all ranks fall back to the event simulation, from the times at which they arrived. Before a rank that has not
arrived affects other ranks, `flush` lets the early ranks continue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro.fabric.collectives.blocks import chunk_bounds
from repro.fabric.costs import Costs
from repro.fabric.virtual.links import Links
from repro.fabric.virtual.scheduler import Scheduler, VirtualTask


@dataclass(frozen=True)
class Ring:
    """The parameters of a ring, which have to agree on all ranks."""

    elements: int
    itemsize: int
    channel: int
    costs: Costs

    def ends(self, links: Links, arrivals: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """For arrivals (p,) in seconds: (when each rank ends, when its NIC is free to send, when to receive, when the
        last message reaches its receiver)."""
        p, alpha, ranks = len(arrivals), links.network.alpha, np.arange(len(arrivals))
        sizes = [end - start for start, end in chunk_bounds(self.elements, p)]
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
    """Collects the ranks of a run that arrive at a ring allreduce."""

    def __init__(self, scheduler: Scheduler, links: Links, size: int):
        self.scheduler, self.links, self.size = scheduler, links, size
        self.arrived: dict[int, VirtualTask] = {}
        self.wanted: Ring | None = None
        self.by_events: set[int] = set()  # ranks that fall back to the event simulation
        network = links.network
        # with FairLinks, hosts or by_size, messages interfere or overtake each other; with losses some are late
        alike = not (network.hosts or network.by_size or network.lost)
        self.possible = type(links) is Links and alike and size > 1
        scheduler.when_stuck = self._release

    def ring(self, ring: Ring, rank: int) -> bool:
        """A rank arrives. True: the ring is complete for it. False: it has to run the ring by events."""
        scheduler = self.scheduler
        scheduler.check()
        if not self.possible or (not self.arrived and not scheduler.only_tasks(self.size)):
            return False
        if self.arrived and ring != self.wanted:
            self.flush()
            return False
        self.arrived[rank], self.wanted = scheduler.current, ring
        if len(self.arrived) < self.size:
            scheduler.block("all ranks to reach an allreduce")
            if rank not in self.by_events:
                return True
            self.by_events.remove(rank)
            return False
        return self._all_arrived(ring, rank)

    def flush(self) -> None:
        """Let the ranks that arrived continue by events, before the running task affects them."""
        if self._release():
            self.scheduler.advance(0.0)

    def _release(self) -> bool:
        """Let the ranks that arrived continue by events, from their arrival; False if none has arrived."""
        arrived, self.arrived = self.arrived, {}
        self.by_events.update(arrived)
        for task in arrived.values():
            self.scheduler.resume(task, task.now)
        return bool(arrived)

    def _all_arrived(self, ring: Ring, last: int) -> bool:
        """The last rank has arrived: let each rank continue when its ring is complete; False if messages interfere."""
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
    """The bytes that a rank sends: in each half of the ring all blocks but one."""
    sizes = [end - start for start, end in chunk_bounds(ring.elements, size)]
    return ring.itemsize * (2 * ring.elements - sizes[(rank + 1) % size] - sizes[(rank + 2) % size])
