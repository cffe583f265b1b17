"""The network model of the virtual fabric: one full-duplex NIC a node, cut-through, first come first served."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from repro.fabric.scheduler import Scheduler


@dataclass(frozen=True)
class Network:
    """alpha: seconds a message needs besides its bytes; beta: seconds a byte. alpha occupies no NIC.

    by_size: (bytes, alpha) in increasing order, in place of the one alpha, for a library that changes its protocol with
    the size of a message (eager up to a limit, a handshake above it); between two sizes straight over log(bytes).
    """

    alpha: float
    beta: float
    by_size: tuple[tuple[int, float], ...] = ()
    quantum: int | None = None

    def latency(self, nbytes: int) -> float:
        """alpha of a message of so many bytes."""
        table = self.by_size
        if not table:
            return self.alpha
        place = bisect_right(table, nbytes, key=lambda entry: entry[0])
        if place in (0, len(table)):
            return table[min(place, len(table) - 1)][1]
        (low, before), (high, after) = table[place - 1], table[place]
        return before + (after - before) * math.log(nbytes / low) / math.log(high / low)


class Links:
    """When a message leaves and arrives (DESIGN section 5):

    tx = max(ready, tx_free);  rx = max(tx + alpha, rx_free);  done = rx + n * beta

    so that p messages of n bytes to one node take alpha + p * n * beta.
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        self.scheduler, self.network = scheduler, network
        self.tx_free = [0.0] * size
        self.rx_free = [0.0] * size
        self.messages = 0

    def transmit(
        self, source: int, to: int, nbytes: int, deliver: Callable[[], None], left: Callable[[], None]
    ) -> None:
        """Send now; `left` runs when the sender's NIC has let go of the last byte, `deliver` when it is in."""
        scheduler, network = self.scheduler, self.network
        self.messages += 1
        if source == to:
            scheduler.at(scheduler.now, to, deliver)
            scheduler.at(scheduler.now, source, left)
            return
        wire = nbytes * network.beta
        tx = max(scheduler.now, self.tx_free[source])
        self.tx_free[source] = tx + wire

        def head_arrives() -> None:  # at its own time, so that receivers serve in order of arrival, not of sending
            rx = max(scheduler.now, self.rx_free[to])
            self.rx_free[to] = rx + wire
            scheduler.at(rx + wire, to, deliver)

        scheduler.at(tx + network.latency(nbytes), to, head_arrives)
        scheduler.at(tx + wire, source, left)
